"""Names that would like to be more than names."""

__all__ = ["HOSTILE", "NASTY"]

HOSTILE = "<script>window.pwned=1</script>"
NASTY = (
    HOSTILE,
    '"><img src=x onerror="window.pwned=1">',
    "</script><script>window.pwned=1</script>",
    "'; window.pwned=1; //",
    "<!-- ]]> & &lt;",
    "line\nbreak\x00\u2028",
    "\udcff lone half",
    "\u202etxt.exe\u202c",
    '=HYPERLINK("x")',
    'comma, "quote"',
)
