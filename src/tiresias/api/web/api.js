// Requests to the manager. The session, or the token, is kept in this tab and sent in `Authorization`; never in a
// cookie, never in a URL. Streams are read by `fetch`, because EventSource can send no header.

const KEY = "tiresias.session";
export const signInBy = document.querySelector('meta[name="tiresias-sign-in"]').content;

export const session = {
  get: () => sessionStorage.getItem(KEY),
  set: (value) => sessionStorage.setItem(KEY, value),
  clear: () => sessionStorage.removeItem(KEY),
};

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

let onSignedOut = () => {};
export const whenSignedOut = (then) => { onSignedOut = then; };

async function sent(path, options = {}) {
  const headers = { ...options.headers };
  if (session.get()) headers.Authorization = `Bearer ${session.get()}`;
  let answer;
  try {
    answer = await fetch(path, {
      ...options, headers, cache: "no-store", credentials: "omit", referrerPolicy: "no-referrer",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, signInBy === "code" ? "If the dashboard has ended, run `tir dashboard` again." : "The network may be down, or the manager.");
  }
  if (answer.ok) return answer;
  let message = `status ${answer.status}`;
  try { message = (await answer.json()).error.message; } catch { /* not from a manager */ }
  if (answer.status === 401) onSignedOut(message);
  throw new ApiError(answer.status, message);
}

export async function get(path, signal) {
  return (await sent(path, { signal })).json();
}

export async function change(method, path, body) {
  const options = { method };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers = { "Content-Type": "application/json" };
  }
  return (await sent(path, options)).json();
}

export async function bytes(path) {
  const answer = await sent(path);
  return { headers: answer.headers, text: new TextDecoder().decode(await answer.arrayBuffer()) };
}

// Follow a stream of server-sent events. `on(name, value, id)` gets each event; returns when the stream ends.
export async function follow(path, lastId, on, signal) {
  const headers = lastId === null ? {} : { "Last-Event-ID": String(lastId) };
  const answer = await sent(path, { headers, signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    let end;
    while ((end = rest.indexOf("\n\n")) >= 0) {
      const block = rest.slice(0, end);
      rest = rest.slice(end + 2);
      let name = "", data = "", id = null;
      for (const line of block.split("\n")) {
        if (line.startsWith("data: ")) data += line.slice(6);
        else if (line.startsWith("event: ")) name = line.slice(7);
        else if (line.startsWith("id: ")) id = line.slice(4);
      }
      on(name, data ? JSON.parse(data) : null, id);
    }
  }
}

// The code in the address is removed from it at once and exchanged for a session.
export async function signIn() {
  const found = /(?:^#|&)code=([\w-]+)/.exec(location.hash);
  if (!found) return "";
  history.replaceState(null, "", location.pathname + location.hash.replace(found[0], "") );
  try {
    const answer = await change("POST", "/session", { code: found[1] });
    session.set(answer.session);
    return "";
  } catch (error) {
    return session.get() ? "" : error.message;
  }
}

export const api = (path, parameters = {}) => {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const each = given.flatMap(([name, value]) => (Array.isArray(value) ? value.map((one) => [name, one]) : [[name, value]]));
  const query = new URLSearchParams(each).toString();
  return `/api/v1${path}${query ? `?${query}` : ""}`;
};
