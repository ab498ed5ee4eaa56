"""What an HTML page holds, read as strictly as a browser is lenient."""

from html.parser import HTMLParser

VOID = {"meta", "br", "link", "img", "hr", "input"}


class Page(HTMLParser):
    """Collects what a page would load, its elements and identifiers, and whether its tags close in order."""

    def __init__(self, source: str = "") -> None:
        super().__init__()
        self.loads, self.pictures, self.ids, self.open, self.text = [], [], [], [], []
        self.elements: list[tuple[str, dict]] = []
        self.raw = {"script": [], "style": []}
        if source:
            self.feed(source)
            self.close()

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.elements.append((tag, values))
        self.loads += [value for name, value in attributes if name in ("src", "srcset", "data")]
        self.loads += [v for n, v in attributes if n in ("href", "xlink:href") and not v.startswith("#")]
        self.ids += [values["id"]] if "id" in values else []
        if tag == "svg":
            self.pictures.append(values)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in self.raw:
            self.raw[self.open[-1]].append(data)
        else:
            self.text.append(data)

    @property
    def words(self) -> str:
        """The page's text, with single spaces."""
        return " ".join(" ".join(self.text).split())
