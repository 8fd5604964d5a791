// Numbers and names as text. What comes from users is shown as text, and characters that would hide or reorder
// other text are shown by their numbers.

const UNSAFE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
const COLOUR = /\u001b\[[0-9;:]*m/g;
const LONGEST_LINE = 4000;

const shown = (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;

export function plain(text, most = 300) {
  const all = String(text ?? "").replace(/[\t\n]/g, " ");
  const cut = all.length > most ? `${all.slice(0, most)}…` : all;
  return cut.replace(UNSAFE, shown);
}

// A line of a log: without colours, of text that a carriage return overwrites only the last, and not too long.
export function logLine(line, left = 0) { // `left` characters of it were left out
  const uncoloured = line.replace(COLOUR, "").replace(/\r+$/, "");
  const last = uncoloured.slice(uncoloured.lastIndexOf("\r") + 1);
  const more = Math.max(0, last.length - LONGEST_LINE) + left;
  const cut = more ? `${last.slice(0, LONGEST_LINE)}… (${more.toLocaleString("en")} more characters)` : last;
  return cut.replace(UNSAFE, (char) => (char === "\t" ? char : shown(char)));
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  const s = Math.max(0, seconds);
  if (s < 1 && s > 0) return `${s.toFixed(1)} s`;
  if (s < 120) return `${Math.round(s)} s`;
  if (s < 7200) return `${Math.round(s / 60)} min`;
  if (s < 172800) return `${(s / 3600).toFixed(1)} h`;
  return `${(s / 86400).toFixed(1)} d`;
}

export function service(gpu_s) {
  if (gpu_s < 120) return `${Math.round(gpu_s)} GPU-s`;
  if (gpu_s < 7200) return `${Math.round(gpu_s / 60)} GPU-min`;
  return `${number(gpu_s / 3600)} GPU-h`;
}

export function number(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (Number.isInteger(value)) return value.toLocaleString("en");
  return value.toLocaleString("en", { maximumSignificantDigits: 3 });
}

// A phrase of the manager as a sentence.
export function sentence(text, most = 1000) {
  const found = plain(text, most).trim();
  return found ? found[0].toUpperCase() + found.slice(1) + (/[.!?…]$/.test(found) ? "" : ".") : "";
}

export const percent = (share) => (share === null || share === undefined ? "–" : `${Math.round(share * 100)} %`);
export const counted = (n, one, many = `${one}s`) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;

export function clock(at) {
  const then = new Date(at * 1000), now = new Date();
  const time = then.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
  if (then.toDateString() === now.toDateString()) return time;
  return `${then.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} ${time}`;
}
