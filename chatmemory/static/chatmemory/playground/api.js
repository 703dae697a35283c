// The public API, as any client speaks it. Every failure is an ApiError whose message is a sentence for a person.

import * as session from "./session.js";
import { WORDS } from "./words.js";

export class ApiError extends Error {
  constructor(message, { status = 0, code = "", retryAfter = 0 } = {}) {
    super(message);
    Object.assign(this, { status, code, retryAfter });
  }

  /** The server, or the way to it, is away: what was asked may be asked again. */
  get isPassing() {
    return [0, 502, 503, 504].includes(this.status);
  }
}

let onUnknown = () => {};

/** `told` is called when the server no longer knows who calls. */
export const whenUnknown = (told) => (onUnknown = told);

/** A response that is fine. `path` is below `/v1/`. Raises ApiError. */
export async function request(method, path, { body, headers = {}, signal, keepalive = false } = {}) {
  const json = body === undefined ? {} : { "Content-Type": "application/json" };
  let response;
  try {
    response = await fetch(`/v1/${path}`, {
      method,
      headers: { ...json, ...session.credentials(), ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: session.byToken() || headers.Authorization ? "omit" : "same-origin",
      cache: "no-store",
      signal,
      keepalive,
    });
  } catch (error) {
    throw signal?.aborted ? error : new ApiError(navigator.onLine ? WORDS.away : "You are offline.");
  }
  if (response.ok) return response;
  const error = await failure(response);
  if (error.status === 401 && path !== "auth/token") onUnknown(error);
  throw error;
}

/** The same, read as JSON; null where there is nothing to read. */
export async function call(method, path, options) {
  const response = await request(method, path, options);
  return response.status === 204 ? null : response.json();
}

/** The query of a page's link to the next one. Its host is not ours to trust: a proxy may have another name. */
export const queryOf = (link) => (link ? new URL(link).search : null);

async function failure(response) {
  const about = { status: response.status, retryAfter: Number(response.headers.get("Retry-After")) || 0 };
  try {
    const { error } = await response.json();
    const fields = Object.values(error.details ?? {}).flat().filter((one) => typeof one === "string");
    const told = error.code === "invalid_request" && fields.length ? fields.join(" ") : (WORDS.errors[error.code] ?? error.message);
    return new ApiError(told || WORDS.odd, { ...about, code: error.code });
  } catch {
    return new ApiError(response.status >= 500 ? WORDS.away : WORDS.odd, about);
  }
}
