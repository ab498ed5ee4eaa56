"""The colours of pages and pictures, on light and on dark."""

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Theme:
    """The colours of a page; `ink` on `paper`, which lies on `desk`."""

    ink: str
    quiet: str
    faint: str
    paper: str
    desk: str
    blue: str
    orange: str
    green: str
    red: str


LIGHT = Theme(
    ink="#1b1f24",
    quiet="#59626d",
    faint="#dfe3e8",
    paper="#ffffff",
    desk="#f7f8f9",
    blue="#0072b2",
    orange="#a65300",
    green="#00734f",
    red="#b3261e",
)
DARK = Theme(
    ink="#e6e8eb",
    quiet="#a3abb5",
    faint="#323941",
    paper="#1a1e22",
    desk="#121518",
    blue="#56b4e9",
    orange="#f0b350",
    green="#45c99a",
    red="#ff9185",
)

# Of classes; from Okabe and Ito's, moved apart for eyes without red, green or blue cones and away from the paper.
# More classes take other shapes in the same colours.
CLASSES = {
    "light": ("#0072b2", "#d25c0c", "#009e73", "#bd7eac", "#de8813", "#24a7e9", "#82275a", "#513b2a"),
    "dark": ("#56b4e9", "#e59f0c", "#239764", "#b984a5", "#d65d00", "#f3e108", "#927ce9", "#bfe6eb"),
}

# Of numbers, from low to high: viridis without the end that the paper swallows, and more always stands out more.
RAMPS = {
    "light": ("#8bd646", "#43bf70", "#23988a", "#2d708e", "#404688", "#481f70", "#3b0f52"),
    "dark": ("#4a5a9c", "#31688e", "#21918c", "#35b779", "#90d743", "#d8e219", "#fde725"),
}


def variables(theme: Theme, classes: tuple[str, ...]) -> str:
    """The declarations of a theme's colours: --ink and its like, and --class-0 and on."""
    colours = asdict(theme) | {f"class-{c}": colour for c, colour in enumerate(classes)}
    return " ".join(f"--{name}: {colour};" for name, colour in colours.items())
