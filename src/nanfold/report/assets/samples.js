// All samples as a table, made when it is unfolded and a page at a time: for those who read rather than look.
const ROWS = 50;

class Samples {
  constructor(details, linked) {
    this.linked = linked;
    this.first = 0;
    this.scroll = element("div", undefined, "wide");
    this.scroll.tabIndex = 0;
    this.scroll.setAttribute("role", "region");
    this.scroll.setAttribute("aria-label", "table: all samples");
    this.where = element("span", "", "quiet");
    const turn = (text, by) => {
      const button = element("button", text, "plain");
      button.type = "button";
      button.addEventListener("click", () => this.show(this.first + by));
      return button;
    };
    this.turns = [turn("Earlier", -ROWS), turn("Later", ROWS)];
    const foot = element("div", undefined, "turns");
    foot.append(...this.turns, this.where);
    details.addEventListener("toggle", () => {
      if (!details.open || this.scroll.isConnected) return;
      details.append(this.scroll, foot);
      this.show(0);
    });
  }

  show(first) {
    this.first = first;
    const last = Math.min(first + ROWS, report.n);
    const table = element("table");
    const head = table.createTHead().insertRow();
    for (const name of ["sample", ...report.colourings.map((colouring) => colouring.name)]) {
      const cell = element("th", name);
      cell.scope = "col";
      head.append(cell);
    }
    const body = table.createTBody();
    for (let i = first; i < last; i++) {
      const row = body.insertRow();
      const who = element("th");
      who.scope = "row";
      const button = element("button", nameOf(i), "sample");
      button.type = "button";
      watchSample(button, i, this.linked);
      who.append(button);
      row.append(who);
      for (const colouring of report.colourings) row.append(element("td", valueOf(colouring, i)));
    }
    this.scroll.replaceChildren(table);
    this.scroll.scrollTop = 0;
    this.where.textContent = `${count(first + 1)} to ${count(last)} of ${count(report.n)}`;
    this.turns[0].disabled = first === 0;
    this.turns[1].disabled = last === report.n;
  }
}

// A name that lights its sample up in the plots.
function watchSample(button, i, linked) {
  button.addEventListener("pointerenter", () => linked.point(i));
  button.addEventListener("pointerleave", () => linked.point(-1));
  button.addEventListener("click", () => {
    linked.keep(i, linked.plots[0]);
    document.querySelector(".stage").scrollIntoView({ block: "start" });
  });
}
