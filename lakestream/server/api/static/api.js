// The daemon's HTTP API and its live messages.

// An answer that is an error: its code, what was wrong, what would be right, and where.
export class ApiError extends Error {
  constructor(status, problem) {
    super(problem.message);
    Object.assign(this, { status, code: problem.code, hint: problem.hint, place: problem.place });
  }
}

async function answer(response) {
  const body = await response.json().catch(() => null);
  if (response.ok && body !== null) return body;
  const problem = body?.error ?? { code: `HTTP_${response.status}`, message: response.statusText };
  throw new ApiError(response.status, problem);
}

async function request(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, {
      code: "NOT_REACHED",
      message: "the daemon does not answer",
      hint: "lakestream serve starts it",
    });
  }
}

export async function get(path) {
  return answer(await request(path));
}

// `signal` gives up: what runs for it ends.
export async function post(path, body = {}, signal = null) {
  const headers = { "Content-Type": "application/json" };
  return answer(await request(path, { method: "POST", headers, body: JSON.stringify(body), signal }));
}

export function streamPath(stream, rest = "") {
  return `/api/streams/${encodeURIComponent(stream.database)}/${encodeURIComponent(stream.name)}${rest}`;
}

const FIRST_WAIT = 500;
const LONGEST_WAIT = 15000;

// Hear what happens, for as long as the page is open; onState hears whether it can be heard.
export function listen(onMessage, onState) {
  let wait = FIRST_WAIT;
  const connect = () => {
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/api/live`);
    socket.addEventListener("open", () => {
      wait = FIRST_WAIT;
      onState(true);
    });
    socket.addEventListener("message", (message) => onMessage(JSON.parse(message.data)));
    socket.addEventListener("close", () => {
      onState(false);
      setTimeout(connect, wait);
      wait = Math.min(wait * 2, LONGEST_WAIT);
    });
  };
  connect();
}
