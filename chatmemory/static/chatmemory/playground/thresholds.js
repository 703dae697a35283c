// When the next fold is due, as a person can watch it come: by the chat's own numbers, and the server's for the rest.

const inTurns = (threshold) => ({ measure: "turns", threshold, has: ({ turns }) => turns });

// By the numbers of the policy in this chat.
const RULES = {
  chunked: ({ threshold }) => ({ measure: "tokens", threshold, has: ({ tokens, state }) => state + tokens }),
  progressive: ({ threshold }) => ({
    measure: "tokens",
    threshold,
    has: ({ tokens, state, instructions }) => {
      const told = Math.min(instructions, Math.floor(threshold / 3));
      return Math.min(told + state, Math.floor((threshold * 2) / 3)) + tokens;
    },
  }),
  interval: (numbers) => inTurns(numbers.window_turns + numbers.every_turns),
  hierarchical: (numbers) => inTurns(Math.max(Math.floor(numbers.trigger_messages / 2), Math.ceil(numbers.recent_messages / 2)) + 1),
};

/**
 * What the next fold waits for, as {measure, threshold, has}; null where no number starts one.
 *
 * `measure` is "turns", of which `threshold` are enough, or "tokens", of which there must be more. `has` counts them, of
 * {turns, tokens} not folded yet, and the tokens of {state, instructions}. `numbers` are what the page was given for this
 * policy; without any nothing is ever folded. Of `options`, the chat's, those count that the policy knows.
 */
export function nextFold(policy, numbers, options = {}) {
  if (!numbers || !RULES[policy]) return null;
  const known = Object.entries(options).filter(([name]) => name in numbers);
  return RULES[policy]({ ...numbers, ...Object.fromEntries(known) });
}
