"""The playground's modules that only compute, tested in the browser."""

import pytest

from tests.browser.support.first_look import Person

pytestmark = [pytest.mark.browser, pytest.mark.nightly]
MODULES = "/static/chatmemory/playground"
LINK = 'rel="noopener noreferrer nofollow" target="_blank"'
STREAM = (
    ": hello\r\nevent: a\r\nid: 4\r\ndata: é😀\r\n\r\ndata:x\rdata: y\r\rid\nretry: 5\nevent: gone\n\ndata\n\ndata: cut"
)


PARSED = """
async ([base, text]) => {
  const { eventsOf } = await import(base + "/sse.js");
  const bytes = new TextEncoder().encode(text);
  const read = async (size) => {
    const pieces = [];
    for (let at = 0; at < bytes.length; at += size) pieces.push(bytes.slice(at, at + size));
    const body = new ReadableStream({ start(c) { pieces.forEach((one) => c.enqueue(one)); c.close(); } });
    const found = [];
    for await (const event of eventsOf(new Response(body))) found.push([event.name, event.data, event.id]);
    return JSON.stringify(found);
  };
  return Promise.all([1, 2, 3, 7, 1000].map(read));
}
"""


def test_events_are_parsed_at_any_chunk_boundary(visitor: Person) -> None:
    visitor.go("/playground/")
    found = visitor.page.evaluate(PARSED, [MODULES, STREAM])
    assert set(found) == {'[["a","é😀","4"],["message","x\\ny","4"],["message","",""]]'}


SHOWN = """
async ([base, texts]) => {
  const { show } = await import(base + "/markdown.js");
  return texts.map((text) => {
    const place = document.createElement("div");
    show(place, text);
    return place.innerHTML;
  });
}
"""


def test_markdown_renders_only_known_elements(visitor: Person) -> None:
    visitor.go("/playground/")
    texts = {
        "**a** &amp; <b>c</b>": '<p dir="auto"><strong>a</strong> &amp; &lt;b&gt;c&lt;/b&gt;</p>',
        "[a](https://b.c/)": f'<p dir="auto"><a href="https://b.c/" {LINK}>a</a></p>',
        "[a](javascript:b)": '<p dir="auto"><span>a</span></p>',
        "[a](/b)": '<p dir="auto"><span>a</span></p>',
        "![a](data:image/png;base64,b)": '<p dir="auto"><span>a</span></p>',
        "[![a](https://b.c/)](https://d.e/)": f'<p dir="auto"><a href="https://d.e/" {LINK}><span>a</span></a></p>',
        r"\(a*b*c^2\) and \[ x^2 \]": r'<p dir="auto">\(a*b*c^2\) and \[ x^2 \]</p>',
        r"\*a\* \[1\] \(": '<p dir="auto">*a* [1] (</p>',
        "# a": '<h3 dir="auto">a</h3>',
        ">" * 5000: f'<p class="cm-asis" dir="auto">{"&gt;" * 5000}</p>',
        "- א\n- b": '<ul dir="auto"><li>א</li><li>b</li></ul>',
        "> א": '<blockquote dir="auto"><p>א</p></blockquote>',
    }
    assert visitor.page.evaluate(SHOWN, [MODULES, list(texts)]) == list(texts.values())


GROWN = """
async ([base, text]) => {
  const { show } = await import(base + "/markdown.js");
  const place = document.createElement("div"), whole = document.createElement("div");
  for (let end = 1; end <= text.length; end++) show(place, text.slice(0, end));
  const first = place.firstChild;
  show(place, text + "!");
  show(whole, text + "!");
  return [place.innerHTML === whole.innerHTML, place.firstChild === first];
}
"""


def test_incremental_rendering_equals_rendering_at_once(visitor: Person) -> None:
    visitor.go("/playground/")
    text = "# A\n\nOne *two*\n\n- a\n- b\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```py\nx = 1\n```\n\n> said\n\nend"
    assert visitor.page.evaluate(GROWN, [MODULES, text]) == [True, True]


FOLLOWED = """
async ([base]) => {
  const { follow } = await import(base + "/follow.js");
  const event = (name, data, id) => `event: ${name}\\n${id ? `id: ${id}\\n` : ""}data: ${JSON.stringify(data)}\\n\\n`;
  const created = event("message.created", { chat_id: "c", message_id: "m", user_message_id: "u" });
  const broken = (text) => new ReadableStream({
    start(c) {
      c.enqueue(new TextEncoder().encode(text));
      setTimeout(() => c.error(new TypeError("network error")), 20);
    },
  });
  const answers = [
    () => new Response(broken(created + event("content.delta", { delta: "😀 one" }, 5) + "event: content.del")),
    () => { throw new TypeError("Failed to fetch"); },
    () => new Response(event("content.delta", { delta: " two" }, 9) + event("reconnect", { retry_ms: 10 })),
    () => new Response(event("message.completed", { message: { content: "😀 one two", status: "complete" } })),
  ];
  const asked = [], texts = [], waits = [];
  window.fetch = async (path, options) => {
    asked.push([options.method, path, options.headers["Last-Event-ID"] ?? null]);
    return answers.shift()();
  };
  const on = { created() {}, text: (text) => texts.push(text), waiting: (sentence) => waits.push(sentence) };
  const start = () => fetch("/v1/message/first", { method: "POST", headers: {} });
  const final = await follow({ start, on, signal: new AbortController().signal });
  return { asked, texts, waits: waits.length, final: final.content };
}
"""


def test_a_reply_is_followed_through_lost_connections(visitor: Person) -> None:
    visitor.go("/playground/")
    found = visitor.page.evaluate(FOLLOWED, [MODULES])
    rest = ["GET", "/v1/chats/c/messages/m/stream?memory_events=true"]
    assert found["asked"] == [
        ["POST", "/v1/message/first", None],
        *([*rest, position] for position in ("5", "5", "9")),
    ]
    assert found["texts"] == ["😀 one", "😀 one two"]
    assert (found["final"], found["waits"]) == ("😀 one two", 3)
