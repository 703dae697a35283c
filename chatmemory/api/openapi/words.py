"""Descriptions of operations, parameters and properties, for readers of the schema.

Pure. A name has one meaning throughout, except where `Component.name` gives it another. Docstrings of our classes are
for readers of the code, and are not published.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

INTRODUCTION = """\
A memory for LLM chats: every message is stored, replies are streamed, and every prompt stays within its token budget.

**Sign in.** Send `Authorization: Bearer <token>`. A token comes from `POST /v1/auth/token`, or from your operator.
Objects of other users return 404.

**Stream.** Replies arrive as server-sent events; with `"stream": false` as JSON. To resume a
broken stream, send `Last-Event-ID`. Disconnecting does not cancel the reply: it is finished and stored.

**Repeat.** The same `Idempotency-Key` with the same body returns the same turn, for 24 hours. **OpenAI's clients** take
`/v1` as their base URL, for `POST /v1/chat/completions`.

**Errors** are `{"error": {"code", "message", "details"?}}`: a machine-readable code, and a message for people.
"""

OPERATIONS: dict[str, str] = {
    "healthz": "For liveness probes: answers as long as the process runs, and checks nothing else.",
    "readyz": "For people and alarms: names the part that does not work. Chats go on without a worker, so route by "
    "`/healthz`.",
    "v1_auth_token_create": "The token is shown only once. It is valid until `expires_at`, or until it is revoked.",
    "v1_auth_token_destroy": "Revokes the token of this request. Others stay valid.",
    "tokens_list": "Shows the first characters of each; the tokens themselves are not stored.",
    "tokens_delete": "Whoever uses it is answered with 401 from now on.",
    "chats_list": "Newest first, in pages. `search` looks in titles; `GET /v1/search` looks in messages.",
    "chats_create": "All fields are optional. To begin with a message instead, use `POST /v1/message/first`.",
    "chats_read": "Its title, policy, options, instructions and metadata.",
    "chats_update": "Only what is sent changes. Another policy, or options that widen what is kept in "
    "full, rebuild memory "
    "in the background; until then the present memory is used.",
    "chats_delete": "Deletes the chat, its messages, its memory and everything derived from "
    "them. This cannot be undone.",
    "attachments_read": "As the client sent it. Bytes are kept for some time only; then this is 404.",
    "brief_read": "The summary in use, how far it reaches, and what is not summarized yet.",
    "context_preview": "The prompt section by section, for the given question or without one; also under another "
    "policy, with another budget or with sources. Nothing is sent or stored.",
    "messages_list": "All messages of the chat, whether they are summarized or not.",
    "messages_create": "Stores the message, builds the prompt and answers with the reply.",
    "messages_read": "A reply that is being written has the status `streaming`, and what is written so far.",
    "messages_cancel": "The partial reply is kept. If the reply has already finished, the answer is 409.",
    "messages_context": "Rebuilt from its record and verified by its hash. Where a message was edited or "
    "deleted since, it "
    "says so.",
    "messages_regenerate": "A new answer to the last question; the older one is `superseded`. Also "
    "answers a question that "
    "has no reply.",
    "messages_stream": "Events of a reply from a position on, whichever process writes it. Of a reply "
    "that has ended, the "
    "final event.",
    "pins_list": "What is in every prompt of this chat until it is removed.",
    "resummarize": "In the background: poll the memory in use. `update` summarizes all but the newest "
    "turns, due or not; "
    "`rebuild` writes memory anew from the original messages.",
    "revisions_list": "All versions that the summary had, newest first, with what each kept and cost.",
    "revisions_read": "Its text, what it was made from, by which model, and what it kept and lost.",
    "revisions_diff": "Word by word, against the parent version or any other. `lost` and `gained` list the numbers, "
    "ids and names that were removed or added.",
    "revisions_restore": "Its text becomes the current memory, as a new version. Newer messages are "
    "summarized again, or, with `pause`, wait until updates are resumed.",
    "me_read": "The account that the token or session belongs to.",
    "message": "Stores the message in its chat, builds the prompt and answers with the reply.",
    "message_first": "Makes the chat, stores the message and answers with the reply, in one call.",
    "models_list": "The names that `model_variant` may have.",
    "search": "In all your chats, best match first, with the matching passage. Matches whole words "
    "in any form, not parts of words.",
    "usage_read": "Tokens and cost of your replies, a row per day and model variant.",
}
"""Descriptions by operation, used where the view gives none."""

PARAMETERS: dict[str, str] = {
    "chat_id": "The chat's id.",
    "message_id": "The message's id.",
    "pin_id": "The pin's id.",
    "model": "The name of a model, as `GET /v1/models` lists it.",
    "version": "The number of a version of the summary, from 1.",
    "search": "Words of a title.",
    "order": "`asc` for the oldest first, `desc` for the newest first.",
    "sha256": "The hash of the bytes, as the message tells it.",
    "against": "The version to compare with; without it, the version that this one goes on from.",
    "limit": "Maximum number of results.",
    "since": "From this moment on.",
    "until": "Up to this moment.",
}

PROPERTIES: dict[str, str] = {
    "added": "Details that neither memory has from the messages.",
    "against": "The version that it is compared with.",
    "brief": "The summary and how far it reaches.",
    "budget": "Tokens that memory may have in a prompt.",
    "cached": "Of input that the provider had cached.",
    "cached_tokens": "Input tokens that the provider had cached.",
    "card": "What became of the memory card that the reply was asked for; empty where none was.",
    "chat_id": "The chat's id.",
    "clipped": "How many items were shortened.",
    "code": "Machine-readable code.",
    "completed_at": "When the reply ended; null for the user's own messages.",
    "content": "The text, exactly as it was sent.",
    "cost_usd": "Cost in USD; null where the price is not known.",
    "created_at": "Creation time.",
    "created": "Creation time in Unix seconds.",
    "data": "The same as OpenAI's clients list models: variants, and every other name that leads to one.",
    "date": "The day, in UTC.",
    "default": "Whether it is used where none is named.",
    "degraded": "Whether the built-in summarizer made it, because the model kept failing.",
    "drift": "Of a rebuild: how far the memory before it was from the messages. Null otherwise.",
    "due": "Whether older messages wait to be summarized.",
    "duration_ms": "How long the summarizer took, in milliseconds.",
    "edited_at": "When the text was last edited; null if it never was.",
    "error": "What went wrong.",
    "exact": "Whether this is exactly the prompt that was sent.",
    "expected": "The expected number of tokens.",
    "expires_at": "When it expires; null if it does not.",
    "fault": "The quality problem.",
    "forgotten_at": "When its texts were removed, because a message that it tells of was edited or deleted.",
    "from_seq": "The first message that was summarized into it.",
    "gained": "Numbers, ids and names that it has and the other had not.",
    "global_summary": "The text of the summary.",
    "has_password": "Whether the account can sign in with a password.",
    "id": "Its id.",
    "input": "Of input, in USD per million tokens.",
    "input_tokens": "Tokens that the model read, as the provider counted them.",
    "instructions": "The system prompt.",
    "is_first": "Whether it is the first message of its chat.",
    "is_staff": "Whether the account may use the admin.",
    "kept": "What was kept.",
    "kind": "What kind it is of.",
    "last_error": "Why the last attempt failed: `code` and `message`. Null if it did not.",
    "last_summarized_message_id": "The last message that the summary covers; null where it covers none.",
    "limit": "Maximum number of results.",
    "lost": "Numbers, ids and names that it has no more.",
    "max_output_tokens": "The longest reply; null where there is no limit.",
    "message": "The message.",
    "message_count": "Messages of the chat.",
    "message_ids": "The messages that are in it.",
    "metadata": "Any JSON object of yours. It is stored and returned, and no model sees it.",
    "mode": "`update` or `rebuild`.",
    "model": "The model's name, as the provider knows it.",
    "model_variant": "The name under which the model is offered here: see `GET /v1/models`.",
    "name": "Its name.",
    "next": "Address of the next page; null on the last.",
    "of": "How many there were.",
    "of_seq": "The last message that the rebuild is to cover; null before it has begun.",
    "object": "What it is, in OpenAI's words.",
    "offline": "Whether the built-in model answers, because none is configured.",
    "only_before": "What only the memory before had.",
    "op": "Whether the text is in both, or in one of them.",
    "options": "Options of memory for this chat alone, by name: `budget`, `threshold`, `focus` and "
    "others. The rest is as "
    "the server is set.",
    "owned_by": "Always `chatmemory`.",
    "output": "Of output, in USD per million tokens.",
    "output_tokens": "Tokens that the model wrote, as the provider counted them.",
    "parent": "The version that it goes on from; null for a first one.",
    "password": "The password.",
    "pieces": "The texts of both versions as pieces, in order.",
    "policy": "The memory policy: `chunked`, `hierarchical`, `card`, `interval` or `progressive`.",
    "previous": "Address of the page before; null on the first.",
    "previous_summary": "The summary so far, to go on from.",
    "price": "What it costs; null where that is not known.",
    "prompt": "The prompt as messages, as the model gets it.",
    "prompt_hash": "SHA-256 by which the prompt can be told from any other.",
    "q": "Words to look for.",
    "reason": "Machine-readable reason.",
    "reasoning_effort": "How long the model may think; null where it is not said.",
    "rebuild": "Progress of a rebuild; null if none is running.",
    "recall": "Whether earlier messages were searched for the question; null where that is not known.",
    "replies": "How many replies there were.",
    "reply_to": "The message that this reply answers; null for the user's own messages.",
    "results": "Items on this page.",
    "retained": "Of the numbers, ids and names that were summarized: which it kept.",
    "role": "Who speaks.",
    "sections": "The parts of the prompt, in order.",
    "seq": "Its place in the chat, from 1.",
    "share": "From 0 to 1: how much of it.",
    "shutdown_date": "Always null.",
    "snippet": "The passage that matches.",
    "soft_faults": "Quality problems of a version that was accepted nevertheless.",
    "sought": "Whether all matching messages were brought back, some of them, or none.",
    "source_hash": "SHA-256 of the messages that it was made from.",
    "sources": "Retrieved material for this turn.",
    "state": "What the policy remembers besides the summary.",
    "status": "`streaming` while it is written; `complete`, `incomplete`, `failed`, `cancelled` or `deleted` then.",
    "stream": "Whether to answer as server-sent events.",
    "summary": "The summary.",
    "superseded_by": "The newer answer to the same question; null if this is the newest.",
    "task_id": "The background task.",
    "text": "The text.",
    "through_seq": "The last message that is covered.",
    "title": "What it is called.",
    "title_is_automatic": "Whether the title was made from the first message, and follows it.",
    "token": "The token. It is shown only once.",
    "token_count": "Tokens of the text.",
    "tokens": "Tokens of it.",
    "tokens_after": "Tokens of the memory after it.",
    "tokens_before": "Tokens that it was made from: the memory before, and the messages.",
    "attachments": "Images and files of a user's message, each by its `sha256`; absent where there are none.",
    "tool_call": "Of a call of a tool its `id`, `name` and `arguments`, of its output `id` and `name`; absent else.",
    "tool_call_id": "The call that this is the output of.",
    "tool_calls": "The calls of tools that the assistant made.",
    "tool": "The tool that is sent with the prompt; null where none is.",
    "turns": "How many turns.",
    "unfolded": "What is not summarized yet.",
    "unrepresented": "Turns that are in the prompt in no form: they can only be recalled.",
    "updated_at": "When it last changed.",
    "usage": "Tokens and cost as reported by the provider; null if it reported none.",
    "user_message_id": "The id of the user's message.",
    "username": "The user name.",
    "verified": "Whether the rebuilt prompt has the hash that was recorded when it was sent.",
    "version": "The number of a version of the summary; 0 before the first.",
    "why": "Why, in a sentence for people.",
    # Names with another meaning in one component.
    "AddedOut.after": "What the rebuilt memory has.",
    "AddedOut.before": "What the memory before had.",
    "SharesOut.after": "What the rebuilt memory holds of what the messages name.",
    "SharesOut.before": "What the memory before held of it.",
    "ChatMessageInRequest.message": "What the user says.",
    "FirstMessageInRequest.message": "What the user says.",
    "MessageInRequest.message": "What the user says.",
    "ContextInRequest.message": "The question to show the prompt for.",
    "ReplyErrorOut.message": "For a person.",
    "ChatMessageInRequest.instructions": "Instructions for this turn, beside those of the chat.",
    "FirstMessageInRequest.instructions": "Instructions for this turn.",
    "MessageInRequest.instructions": "Instructions for this turn, beside those of the chat.",
    "MessageOut.created_at": "When it was sent.",
    "MessageOut.error": "Why the reply did not complete; null where it did.",
    "AnswerOut.error": "Why the reply did not complete; null where it did.",
    "ContextOut.tokens": "Tokens of memory in the prompt, without instructions, sources and question.",
    "ContextOut.why": "Why this may not be the prompt that was sent; null where it is.",
    "SectionOut.kind": "Which part of the prompt: `summary`, `window`, `recall` and others.",
    "SectionOut.clipped": "Whether it was shortened to fit.",
    "PinOut.kind": "What it says: an instruction, a preference, who somebody is, or something else.",
    "RevisionOut.kind": "What made it: an update (`fold`), a rebuild, a restore, an edit by hand, or a step back.",
    "RevisionOut.turns": "Turns that were summarized into it.",
    "RevisionOut.through_seq": "The last message that was summarized into it; before `from_seq` if none was.",
    "UnfoldedOut.tokens": "Tokens of those turns.",
    "RebuildOut.turns": "Turns that the rebuild has covered so far.",
    "RebuildOut.through_seq": "The last message that the rebuild has covered.",
    "RetainedOut.lost": "What was not kept.",
    "SoftFaultOut.kept": "How many were kept.",
    "SoftFaultOut.lost": "What was lost.",
    "SoftFaultOut.tokens": "Tokens that it has.",
    "SoftFaultOut.from_seq": "The first message concerned.",
    "SoftFaultOut.through_seq": "The last message concerned.",
    "DriftOut.share": "What both memories hold of what the messages name.",
    "DriftOut.lost": "What the memory before had lost, and the rebuilt one has.",
    "SourceInRequest.title": "What the source is called.",
    "SourceInRequest.text": "What it says.",
    "SnippetOut.text": "The passage as text.",
    "MessageOut.model": "The model that wrote it; empty for the user's own messages.",
    "ModelOut.model": "The model behind it, as the provider knows it.",
}

COMPONENTS: dict[str, str] = {
    "MessageOut": "A message of a chat: what a user said, or a reply.",
    "ChatInRequest": "A chat to be made.",
    "PatchedChatInRequest": "What is to change of a chat.",
    "EraseInRequest": "The password, or `confirm` for an account without one.",
    "KnownTokenOut": "A token by what tells it from others.",
}
"""Descriptions of components that replace those from the code. An empty string means no description."""


def describe(schema: Schema) -> None:
    """Add the descriptions above to every operation, parameter and property that has none."""
    schema["info"]["description"] = INTRODUCTION
    for operation in (one for methods in schema["paths"].values() for one in methods.values()):
        if words := OPERATIONS.get(operation["operationId"]):
            operation.setdefault("description", words)
        for parameter in operation.get("parameters", []):
            _fill(parameter, PARAMETERS.get(parameter["name"]))
    for name, component in schema["components"]["schemas"].items():
        if name in COMPONENTS:
            component["description"] = COMPONENTS[name]
        for inner, of in component.get("properties", {}).items():
            _fill(of, PROPERTIES.get(f"{name}.{inner}", PROPERTIES.get(inner)))


def _fill(told: Schema, words: str | None) -> None:
    """Set the description, unless there is one."""
    if words and not told.get("description"):
        told["description"] = words
