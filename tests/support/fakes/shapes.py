"""Answers as real servers shape them, each with what is stored, shown and counted of it. Pure.

One table, for streamed and for unstreamed requests: vLLM, llama.cpp, Ollama, the endpoints of providers, gateways.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from chatmemory.llm.openai.reading import Style
from tests.support.fakes.behaviours import Behaviour
from tests.support.fakes.streaming import PART

TEXT = "Eleven twelve."
HALF = "Half "
DONE = "data: [DONE]\n\n"
USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
FIND, NOW = ("find", '{"q":"1"}'), ("now", "{}")
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in ("find", "now")]


@dataclass(frozen=True)
class Shape:
    """An answer in one of the API styles, and what is stored, shown and counted of it."""

    name: str
    body: str
    text: str = TEXT
    status: str = "complete"
    code: str = ""
    """Our error code."""
    calls: tuple[tuple[str, str], ...] = ()
    usage: tuple[int, int] | None = None
    """The tokens in and out that count as billed; None: the estimate counts."""
    content_type: str = "text/event-stream"
    style: Style = "chat"

    @property
    def kind(self) -> tuple[object, ...]:
        """What `make test` shows by one shape of a kind."""
        return self.style, self.status, self.code, len(self.calls), bool(self.text), self.usage is None

    @property
    def behaviour(self) -> Behaviour:
        return Behaviour("body", text=self.body, code=200, content_type=self.content_type)


def chunk(delta: Any, finish: Any = None, **fields: Any) -> str:
    """Return one event of a stream; `fields` are those of its choice."""
    return event({"choices": [{"index": 0, "delta": delta, "finish_reason": finish, **fields}]})


def event(data: dict[str, Any]) -> str:
    return f"data: {json.dumps({'id': 'c1', 'object': 'chat.completion.chunk', 'model': 'm', **data})}\n\n"


def stream_of(*contents: Any, finish: Any = "stop", usage: Any = None) -> str:
    """Return a stream of these contents and a proper end."""
    last = event({"choices": [], "usage": usage}) if usage else ""
    return "".join(chunk({"content": one}) for one in contents) + chunk({}, finish) + last + DONE


def whole(message: Any, finish: Any = "stop", **fields: Any) -> str:
    """Return an answer that is not streamed."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return json.dumps({"id": "c1", "object": "chat.completion", "model": "m", "choices": [choice], **fields})


def called(*chunks: list[dict[str, Any]], finish: str = "tool_calls") -> str:
    """Return a stream whose chunks have these entries of `tool_calls`."""
    return "".join(chunk({"tool_calls": parts}) for parts in chunks) + chunk({}, finish) + DONE


def call(name: Any, arguments: Any, **fields: Any) -> dict[str, Any]:
    function = {"arguments": arguments} | ({} if name is None else {"name": name})
    return {"function": function, **fields}


PLAIN = stream_of("Eleven ", "twelve.")
PARTS = [{"type": "text", "text": "Eleven "}, {"type": "text", "text": "twelve."}]
THINKING = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
BROKEN: Any = {"status": "incomplete", "code": "upstream_error", "text": HALF}
JSON = "application/json"


def shapes() -> Iterator[Shape]:
    """Yield every shape."""
    yield from _framing()
    yield from _contents()
    yield from _calls()
    yield from _errors()
    yield from _ends()
    yield from _usages()
    for one in _responses():
        yield replace(one, name=f"Responses: {one.name}", style="responses")


def _framing() -> Iterator[Shape]:
    yield Shape("a byte order mark", "\ufeff" + PLAIN)
    yield Shape("a byte order mark of its own", f"\ufeff{PART}{PLAIN}")
    yield Shape("blank lines and a comment first", f"\n\n: OPENROUTER PROCESSING\n\n{PLAIN}")
    yield Shape("CR alone", PLAIN.replace("\n", "\r"))
    yield Shape("CR LF, cut between", PLAIN.replace("\n", f"\r{PART}\n"))
    yield Shape("no space after the colon", PLAIN.replace("data: ", "data:"))
    yield Shape("other fields", PLAIN.replace("data: ", "event: message\nid: 7\nretry: 5\ndata: "))
    yield Shape("data over several lines", PLAIN.replace('"choices"', '\ndata: "choices"'))
    yield Shape("empty data", PLAIN.replace("data: {", "data:\n\nevent: ping\ndata: \n\ndata: {"))
    yield Shape("one line end between events", PLAIN.replace("\n\n", "\n") + "\n")
    yield Shape("no end after DONE", PLAIN.rstrip())
    yield Shape("no end after the last event", PLAIN.removesuffix(DONE).rstrip())
    yield Shape("comments as data", PLAIN.replace("data: {", "data: : keepalive\n\ndata: {"))
    yield Shape("null as data", PLAIN.replace("data: {", "data: null\n\ndata: {"))
    yield Shape("JSON below its name", PLAIN.replace("data: {", "data:\n {"))
    yield Shape("words after DONE", PLAIN.replace("[DONE]", "[DONE] bye"))
    yield Shape("one JSON object", whole({"content": TEXT}), content_type=JSON)
    yield Shape("one JSON object, typed as a stream", f"\n{whole({'content': TEXT})}\n")
    yield Shape("one JSON object with a mark", "\ufeff" + whole({"content": TEXT}), content_type=JSON)
    choice = {"message": {"content": TEXT}, "delta": {"role": "assistant", "content": ""}, "finish_reason": "stop"}
    yield Shape("an empty delta beside the message", json.dumps({"choices": [choice]}), content_type=JSON)
    pretty = json.dumps(json.loads(whole({"content": TEXT})), indent=2).replace("{", "{" + PART, 3)
    yield Shape("one JSON object over lines", pretty, content_type="text/plain")
    yield Shape("a stream, typed as JSON", PLAIN, content_type=JSON)
    yield Shape("a whole answer in an event", f"data: {whole({'content': TEXT})}\n\n{DONE}")
    yield Shape("a line for each object", "".join(PLAIN.split("data: ")[:-1]).replace("\n\n", "\n"))
    repeated = PLAIN.replace(DONE, f"data: {whole({'content': TEXT})}\n\n{DONE}")
    yield Shape("the whole answer once more", repeated)
    yield Shape("half a JSON object", whole({"content": TEXT})[:-9], "", "failed", "upstream_error")


def _contents() -> Iterator[Shape]:
    yield Shape("parts", stream_of([THINKING], PARTS[:1], [PARTS[1], {"type": "reference", "reference_ids": [1]}]))
    yield Shape("parts of a whole answer", whole({"content": [THINKING, *PARTS]}), content_type=JSON)
    yield Shape("strings as parts", stream_of(["Eleven "], ["twelve."]))
    yield Shape("reasoning beside it", chunk({"reasoning_content": "Hm.", "reasoning": "Hm."}) + PLAIN)
    yield Shape("thoughts in the text", stream_of("<think>Hm.</think>", "Eleven."), "<think>Hm.</think>Eleven.")
    for name, blank in (("line ends", "\n\n"), ("spaces", " \u00a0\u3000"), ("invisible", "\u200b\ufeff")):
        yield Shape(f"only {name}", stream_of(blank, " "), "", "failed", "upstream_error")
    yield Shape("only reasoning", chunk({"reasoning_content": "Hm."}) + stream_of(), "", "failed", "upstream_error")
    yield Shape("blank before the text", stream_of("\n", "\n", "Eleven"), "\n\nEleven")
    yield Shape("null contents", chunk({"role": "assistant", "content": None}) + PLAIN)


def _calls() -> Iterator[Shape]:
    both: Any = {"text": "", "calls": (FIND, NOW)}
    find, now = call(*FIND), call(*NOW)
    yield Shape("no index, no id, a call a chunk", called([find], [now]), **both)
    yield Shape("no index, no id, in one chunk", called([find, now]), **both)
    zero = {"index": 0, "id": ""}
    yield Shape("index 0 twice, empty ids", called([find | zero], [now | zero]), **both)
    twice: Any = {"text": "", "calls": (FIND, ("find", '{"q":"2"}'))}
    other = call("find", '{"q":"2"}')
    for name, fields in (("nothing", {}), ("index 0", {"index": 0}), ("empty ids", zero)):
        yield Shape(f"one tool twice, by {name}", called([find | fields], [other | fields]), **twice)
        yield Shape(f"one tool twice, by {name}, in one chunk", called([find | fields, other | fields]), **twice)
    cut = [call("find", ""), call(None, '{"q"'), call("", ':"2"}')]
    pieces = [[find | {"id": "a"}], *([one | ({"id": "b"} if at == 0 else {})] for at, one in enumerate(cut))]
    yield Shape("by id, pieces without", called(*pieces), **twice)
    by_id = [[call("find", "", id="a")], [call("find", "", id="b")]]
    by_id += [[call(None, f'{{"q":"{at}"}}', id=one)] for at, one in enumerate("ab", 1)]
    yield Shape("by id alone, in turn", called(*by_id), **twice)
    yield Shape(
        "argless tools without ids, in one chunk",
        called([call("now", ""), call("now", None)]),
        "",
        calls=(NOW, NOW),
    )
    one: Any = {"text": "", "calls": (FIND,)}
    head, tail = call("find", '{"q"', index=0, id="a1"), call(None, ':"1"}', index=0, id="a2")
    yield Shape("another id with each piece", called([head], [tail]), **one)
    same = [[call("find", piece, index=0, id="a")] for piece in ("", '{"q"', ':"1"}', "")]
    yield Shape("the name with each piece", called(*same), **one)
    for name, again in (("", FIND[1]), (" as a text", json.dumps(FIND[1]))):
        yield Shape(f"all arguments again{name}", called(*same, [call("find", again, index=0, id="a")]), **one)
    yield Shape("a channel in the name", called([call("find<|channel|>commentary", FIND[1], index=0)]), **one)
    yield Shape("index in the first piece alone", called([head], [call(None, ':"1"}')]), **one)
    yield Shape("indexes as text", called([head | {"index": "0"}], [tail | {"index": "0"}]), **one)
    yield Shape("another index with each piece", called([head], [call(None, ':"1"}', index=1)]), **one)
    yield Shape(
        "arguments as an object",
        called([call("find", {"q": "1"}, index=0)]),
        "",
        calls=(("find", '{"q": "1"}'),),
    )
    yield Shape("an empty object before the pieces", called([call("find", {}, index=0)], [head], [tail]), **one)
    yield Shape(
        "{} before the pieces",
        called([call("find", "{}", index=0)], [call(None, '{"q":"1"}', index=0)]),
        **one,
    )
    yield Shape("no arguments", called([call("now", "", index=0, id="a")]), "", calls=(NOW,))
    yield Shape("null arguments", called([call("now", None, index=0, id="a")], finish="stop"), "", calls=(NOW,))
    legacy = chunk({"function_call": {"name": "find", "arguments": ""}})
    legacy += "".join(chunk({"function_call": {"arguments": piece}}) for piece in ('{"q"', ':"1"}'))
    yield Shape("a function_call", legacy + chunk({}, "function_call") + DONE, **one)
    message: Any = {"content": None, "tool_calls": [{"id": "a", "type": "function", **find}]}
    yield Shape("calls of a whole answer", whole(message, "tool_calls"), content_type=JSON, **one)
    yield Shape(
        "a whole function_call",
        whole({"content": None, "function_call": find["function"]}),
        content_type=JSON,
        **one,
    )


def _errors() -> Iterator[Shape]:
    half = chunk({"content": HALF})
    end = chunk({}, "stop") + DONE
    error = {"code": 502, "message": "provider away"}
    yield Shape("an error of the choice", half + chunk({}, error=error) + end, **BROKEN)
    yield Shape("an error of the last choice", half + chunk({}, "stop", error=error) + DONE, **BROKEN)
    yield Shape(
        "an event named error",
        half + 'event: error\ndata: {"detail": "away", "status": 502}\n\n' + end,
        **BROKEN,
    )
    yield Shape("an event named error, in words", half + "data: away\nevent:error\n\n" + end, **BROKEN)
    yield Shape("a line named error", half + 'error: {"code": 500, "message": "away"}\n\n' + end, **BROKEN)
    for name, told in {
        "OpenAI": {"error": error},
        "a text": {"error": "away"},
        "FastAPI": {"detail": "away"},
        "FastAPI's checks": {"detail": [{"loc": ["body"], "msg": "away", "type": "missing"}]},
        "vLLM": {"object": "error", "message": "away", "type": "InternalServerError", "code": 500},
        "Anthropic": {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        "MiniMax": {"choices": None, "base_resp": {"status_code": 1002, "status_msg": "rate limit"}},
        "a code": {"code": 500, "message": "away"},
    }.items():
        data = f"data: {json.dumps(told)}\n\n"
        yield Shape(f"an error of {name}", half + data + end, **BROKEN)
        yield Shape(f"an error of {name} at once", data + DONE, "", "failed", "upstream_error")
        yield Shape(f"an error of {name} in JSON", json.dumps(told), "", "failed", "upstream_error", content_type=JSON)
    yield Shape("a finish that is an error", half + chunk({}, "error") + DONE, **BROKEN)
    unsaid = chunk({}, "stop", native_finish_reason="network_error")
    yield Shape("a finish that was an error", half + unsaid + DONE, **BROKEN)
    # LM Studio's words
    said_so = "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with "
    overflow = {"error": {"code": 400, "message": said_so + "context length of only 4096 tokens"}}
    yield Shape("too long, at once", f"data: {json.dumps(overflow)}\n\n", "", "failed", "context_length_exceeded")
    bare = f": ping\n\n{json.dumps(overflow)}"
    yield Shape("too long, without data", bare, "", "failed", "context_length_exceeded")
    yield Shape("too long, in JSON", json.dumps(overflow), "", "failed", "context_length_exceeded", content_type=JSON)


def _ends() -> Iterator[Shape]:
    for reason in ("STOP", "eos_token", "end_turn", "COMPLETE", "stop_sequence", "tool_use"):
        yield Shape(f"finish {reason}", stream_of(TEXT, finish=reason))
    for reason in ("length", "MAX_TOKENS", "model_length", "context_window_exceeded"):
        yield Shape(f"finish {reason}", stream_of(TEXT, finish=reason), status="incomplete", code="too_long")
    for reason in ("content_filter", "SAFETY", "guardrail_intervened", "sensitive"):
        yield Shape(f"finish {reason}", stream_of(TEXT, finish=reason), status="incomplete", code="refused")
    for reason in ("abort", "MALFORMED_FUNCTION_CALL"):
        yield Shape(f"finish {reason}", stream_of(TEXT, finish=reason), status="incomplete", code="upstream_error")
    yield Shape("finishReason", stream_of(TEXT, finish=None).replace(DONE, chunk({}, finishReason="stop")))
    yield Shape("no reason in a whole answer", whole({"content": TEXT}, None), content_type=JSON)
    yield Shape(
        "MAX_TOKENS in a whole answer",
        whole({"content": TEXT}, "MAX_TOKENS"),
        status="incomplete",
        code="too_long",
    )


def _usages() -> Iterator[Shape]:
    zeros = dict.fromkeys(USAGE, 0)
    yield Shape("usage", stream_of(TEXT, usage=USAGE), usage=(11, 7))
    yield Shape(
        "usage in every chunk",
        PLAIN.replace('"model"', f'"usage": {json.dumps(USAGE)}, "model"'),
        usage=(11, 7),
    )
    yield Shape("usage of the choice", chunk({"content": TEXT}) + chunk({}, "stop", usage=USAGE) + DONE, usage=(11, 7))
    yield Shape("usage of a whole answer", whole({"content": TEXT}, usage=USAGE), usage=(11, 7), content_type=JSON)
    yield Shape("usage of zeros", stream_of(TEXT, usage=zeros))
    yield Shape("no tokens in", stream_of(TEXT, usage=USAGE | {"prompt_tokens": 0}))
    yield Shape("no tokens out", stream_of(TEXT, usage={"prompt_tokens": 11, "completion_tokens": 0}))
    thoughts = USAGE | {"completion_tokens": 2}
    yield Shape("thoughts in the total alone", stream_of(TEXT, usage=thoughts), usage=(11, 7))
    yield Shape("tokens below zero", stream_of(TEXT, usage=USAGE | {"completion_tokens": -7}))
    yield Shape("more tokens than any model has", stream_of(TEXT, usage=USAGE | {"prompt_tokens": 10**12}))
    yield Shape("a total alone", stream_of(TEXT, usage={"total_tokens": 18}))
    yield Shape(
        "fewer tokens than a text can have",
        stream_of("word " * 300, usage={"prompt_tokens": 11, "completion_tokens": 1}),
        "word " * 300,
    )


# The Responses API


def response_event(kind: str, **fields: Any) -> str:
    """Return one event of a stream of the Responses API."""
    data = json.dumps({"type": f"response.{kind}", **fields})
    return f"event: response.{kind}\ndata: {data}\n\n"


def response(content: Any = (), status: str = "completed", calls: Any = (), **fields: Any) -> dict[str, Any]:
    """Return a whole response; `content` is that of its message."""
    items = [{"type": "message", "role": "assistant", "content": content}] if content else []
    output = [
        *items,
        *({"type": "function_call", "call_id": f"c{at}", **one} for at, one in enumerate(calls)),
    ]
    return {"id": "r1", "object": "response", "model": "m", "status": status, "output": output, **fields}


def ended(content: Any = (), status: str = "completed", **fields: Any) -> str:
    return response_event(status, response=response(content, status, **fields))


def _responses() -> Iterator[Shape]:
    parts = [{"type": "output_text", "text": TEXT}]
    begun, half = (
        response_event("created", response=response(status="in_progress")),
        response_event("output_text.delta", delta=HALF),
    )
    deltas = "".join(response_event("output_text.delta", delta=one) for one in ("Eleven ", "twelve."))
    plain = begun + deltas + ended(parts)
    yield Shape("a byte order mark of its own", f"\ufeff{PART}{plain}")
    yield Shape("CR alone", plain.replace("\n", "\r"))
    yield Shape("CR LF, cut between", plain.replace("\n", f"\r{PART}\n"))
    yield Shape("no names of events", "".join(f"data:{one}\n\n" for one in _datas(plain)))
    yield Shape("a line for each event", "".join(f"{one}\n" for one in _datas(plain)))
    yield Shape("one JSON object", json.dumps(response(parts)), content_type=JSON)
    yield Shape("one JSON object, typed as a stream", json.dumps(response(parts), indent=1))
    yield Shape("the text at the end alone", begun + ended([{"type": "reasoning_text", "text": "Hm."}, *parts]))
    yield Shape("a text as content", begun + ended(TEXT))
    yield Shape("no end after the last event", plain.rstrip())
    named = "".join(f"{one}\n\n" for one in plain.replace('"type": "response.', '"kind": "').split("\n\n") if one)
    yield Shape("types as names of events alone", named)
    message, found = (
        {"type": "message", "content": parts},
        {"type": "function_call", "call_id": "c0", "name": "find", "arguments": FIND[1]},
    )
    items = [response_event("output_item.done", item=one) for one in (message, found)]
    yield Shape("the text in its item alone", begun + items[0] + ended())
    yield Shape("text and call in their items alone", begun + "".join(items) + ended(), calls=(FIND,))
    yield Shape("the text also in its item", begun + deltas + items[0] + ended(parts))
    yield Shape("parts as a delta", begun + response_event("output_text.delta", delta=parts) + ended(parts))
    yield Shape(
        "only line ends",
        begun + response_event("output_text.delta", delta="\n\n") + ended(),
        "",
        "failed",
        "upstream_error",
    )
    error = {"code": "server_error", "message": "away"}
    yield Shape("an error", half + f"data: {json.dumps({'type': 'error', **error})}\n\n" + ended(parts), **BROKEN)
    yield Shape("an event named error", half + 'event: error\ndata: {"detail": "away"}\n\n' + ended(parts), **BROKEN)
    yield Shape("an error of FastAPI", half + 'data: {"detail": "away"}\n\n' + ended(parts), **BROKEN)
    yield Shape("a failure", half + ended(status="failed", error=error), **BROKEN)
    yield Shape("an error in JSON", json.dumps({"error": error}), "", "failed", "upstream_error", content_type=JSON)
    for reason, code in (
        ("MAX_TOKENS", "too_long"),
        ("content_filter", "refused"),
        ("other", "upstream_error"),
    ):
        cut = ended(parts, "incomplete", incomplete_details={"reason": reason})
        yield Shape(f"incomplete: {reason}", begun + deltas + cut, status="incomplete", code=code)
    calls = [{"name": "find", "arguments": {"q": "1"}}, {"name": "now", "arguments": None}]
    made: Any = {"text": "", "calls": (("find", '{"q": "1"}'), NOW)}
    yield Shape("arguments as an object, and none", begun + ended(calls=calls), **made)
    yield Shape("calls in JSON", json.dumps(response(calls=calls)), content_type=JSON, **made)
    counts = {"input_tokens": 11, "output_tokens": 7}
    yield Shape("usage", begun + ended(parts, usage=counts), usage=(11, 7))
    yield Shape("usage of zeros", begun + ended(parts, usage=dict.fromkeys(counts, 0)))


def _datas(stream: str) -> list[str]:
    return [line.removeprefix("data: ") for line in stream.split("\n") if line.startswith("data: ")]
