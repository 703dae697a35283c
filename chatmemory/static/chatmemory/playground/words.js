// The texts of the page, by subject.

export const WORDS = {
  edit: {
    title: "Edit this message",
    told: "Memory based on the old text is removed and rebuilt. Later replies are not changed.",
    label: "Text",
    yes: "Save"
  },
  forget: {
    title: "Delete this message?",
    told:
      "This permanently deletes the text from the chat and from every summary built on it. Replies that " +
      "quote it are kept.",
    yes: "Delete",
    danger: "yes"
  },
  rename: {
    title: "Rename this chat",
    label: "Title",
    yes: "Rename"
  },
  remove: {
    title: "Delete this chat?",
    told: "The chat, its messages and its memory will be permanently deleted.",
    yes: "Delete",
    danger: "yes"
  },
  goes: [
    ["messages", "message"],
    ["attachments", "image or file", "images and files"],
    ["pins", "pin"],
    ["versions", "version of the summary", "versions of the summary"],
    ["prompts", "record of a prompt", "records of prompts"]
  ],
  sharing: {
    title: "What this chat shares",
    told: "What is said in a project is found in no other. Empty: this chat is in no project.",
    yes: "Save"
  },
  shares: { off: "Nothing", pins: "Pins", all: "Pins and messages" },
  at_most: "At most: “What do you remember about me?” says what all your chats share.",
  correct: {
    title: "Correct this pin",
    told: "The message that it comes from stays as it is.",
    label: "Text",
    yes: "Save"
  },
  decided: { person: "You decided this", app: "This is how the app is set", server: "This is how the server is set" },
  shares_nothing: "Your chats share nothing. Each of them remembers only itself.",
  no_lines: "Nothing yet. Let a pin hold in all your chats, in the list of pins beside a chat.",
  none_quoted: {
    off: "Nothing is quoted.",
    pins: "Nothing is quoted: your chats share only pins.",
    all: "Nothing yet. When a question needs it, a chat quotes what you said in another one."
  },
  scopes: { chat: "this chat", project: "this project", person: "all my chats" },
  not_shared: "Your chats share no pins, so it holds only here until you change that.",
  sources: {
    pin: "Pins",
    elsewhere: "Quoted from other chats",
    excerpt: "Recalled from earlier in this chat",
    summary: "Lines of the summary",
    line: "One-line summaries",
    message: "Recent messages"
  },
  no_sources: "None. The model saw only your message and its instructions.",
  why: "Why do you know this?",
  restore: {
    told:
      "It becomes the current version. Nothing is deleted. While updates are paused, newer messages stay in " +
      "the prompt as long as they fit, and can be recalled. Updates resume when you resume them, or when " +
      "new messages no longer fit.",
    check: "Keep this version: pause updates",
    yes: "Restore"
  },
  again: "If you keep updating, newer messages are summarized again when due",
  policy: {
    title: "Change the memory policy?",
    told: "The current memory is used until it's done. Manual edits are overwritten.",
    yes: "Rebuild"
  },
  clear: {
    title: "Clear the summary?",
    told:
      "The summary starts over with the messages that are not summarized yet. Nothing is removed from the " +
      "chat: older messages can still be recalled when a question matches them. To undo it, restore the " +
      "previous version.",
    yes: "Clear"
  },
  same: "The summary did not change: nothing in these messages was new enough to displace what it holds.",
  replaced: "Replaced: made by another policy.",
  lost: "The original messages are kept, and recalled when you ask about them.",
  still_valid:
    "You are signed out here, but the server could not be reached: this page's token stays valid until it " +
    "expires or all your tokens are revoked.",
  not_ended: "Signing out failed. Reload this page and try again.",
  gone: "This chat was deleted or is not yours. What you typed is kept.",
  offline: "You are offline. What you type is kept, and replies continue on the server.",
  empty: "No summary yet. The model still sees the whole conversation.",
  cleared: "The summary is empty.",
  rebuilding: "Rebuilding from the original messages. The current summary is used until it's done.",
  nothing_to_do: "Nothing to summarize yet. The most recent messages always stay in full.",
  made: {
    rebuild: "Rebuilt from the original messages",
    restore: "Restored from an older version",
    retract: "Rolled back because a message was edited or deleted",
    branch: "Copied from the chat that this one branched from"
  },
  ends: {
    incomplete: "The reply was cut off. The partial reply was saved.",
    failed: "No reply.",
    cancelled: "Stopped. The partial reply was saved."
  },
  deleted: "This message was deleted, from memory too.",
  divider: "The model sees messages below in full; above, only its memory of them.",
  pinned: {
    user: "pinned by you",
    staff: "pinned by staff",
    rule: "found in your message",
    summarizer: "found by the summarizer"
  },
  no_pins: "Nothing is pinned. Pin a message, or say “always …” or “I prefer …”.",
  no_chats: "No chats yet. Write a message to start one.",
  own_chats: "Only your own chats are listed here.",
  no_hits: "Nothing found. Messages are found by whole words, chats by any part of their title.",
  searching: "Searching messages…",
  going_up: "Loading older messages…",
  far_up: "This message is further up than what is loaded.",
  later: "Available when the reply is finished.",
  left_free: "are reserved for earlier messages that match your next question.",
  stayed_free: "of the budget stayed free.",
  all_recent: "All of them are recent, and the most recent turns always stay in full.",
  unfit: "did not fit and can only be recalled.",
  differs: "This differs from the prompt that was sent:",
  switching: "Rebuilding memory with the new policy.",
  again_now: "You can send again.",
  away: "The server cannot be reached.",
  odd: "The server sent an unexpected response.",
  errors: {
    too_large: "This message is too long. Shorten it, or send it in parts.",
    permission_denied: "You signed in again in another window. Reload this page; what you typed is kept."
  },
  slow: "The reply is taking too long. Open the chat again later.",
  lost_line: "Connection lost. The reply continues on the server; reconnecting…",
  unheard: "The server is not responding. Your message is kept and will be sent again…",
  unknown: "This token is invalid or has expired.",
  stale_link: "The token in this link is invalid or has expired.",
  link_again: "Open the link again in a moment.",
  signed_out: "Your session has ended. Sign in again to continue.",
  aside: "The link you opened has a different token, which was not used. Sign out first."
};
