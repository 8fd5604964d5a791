// The frame: signing in, the navigation, and which page an address means.

import { html, render, useEffect, useRef, useState } from "./vendor/preact-htm.js";
import { api, get, session, signIn, signInBy, whenSignedOut } from "./api.js";
import { Job } from "./job.js";
import { connect, useLive } from "./live.js";
import { Now } from "./now.js";
import { History, WhatIf } from "./past.js";
import { Failure, Loading, Phrase } from "./parts.js";
import { Queue } from "./queue.js";
import { clock, plain, sentence } from "./text.js";

const VIEWS = [["", "Now", Now], ["queue", "Queue", Queue], ["history", "History", History], ["what-if", "What if", WhatIf]];
const view = () => location.hash.replace(/^#\/?/, "").split("?")[0].split("&")[0];

function App({ problem }) {
  const [where, setWhere] = useState(view);
  const [signed, setSigned] = useState(Boolean(session.get()));
  const [me, setMe] = useState(null);
  const [error, setError] = useState(problem ? new Error(problem) : null);
  const main = useRef(null);
  useEffect(() => {
    const on = () => setWhere(view());
    addEventListener("hashchange", on);
    whenSignedOut((message) => { session.clear(); setSigned(false); setError(new Error(message)); });
    return () => removeEventListener("hashchange", on);
  }, []);
  useEffect(() => {
    if (!signed) return undefined;
    let over = false;
    const ask = async () => {
      try {
        const found = await get(api("/whoami"));
        if (!over) { setMe(found); setError(null); connect(); }
      } catch (problem) {
        if (over || problem.status === 401) return;
        setError(problem);
        setTimeout(ask, 2000);
      }
    };
    ask();
    return () => { over = true; };
  }, [signed]);
  const [first, id] = where.split("/");
  const name = first === "jobs" ? `Job ${id ?? ""}` : VIEWS.find(([path]) => path === first)?.[1] ?? "Tiresias";
  useEffect(() => { document.title = `${name} · Tiresias`; main.current?.focus({ preventScroll: true }); scrollTo(0, 0); }, [where]);
  const Page = VIEWS.find(([path]) => path === first)?.[2];
  return html`<a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); main.current.focus(); }}>To the contents</a>
    <header class="top"><a class="brand" href="#/"><img src="/web/icon.svg" alt="" width="22" height="22" />Tiresias</a>
      <nav aria-label="Pages">${signed ? VIEWS.map(([path, text]) => html`<a href="#/${path}" aria-current=${first === path || (path === "" && first === "jobs") ? "page" : undefined}>${text}</a>`) : null}</nav>
      ${signed ? html`<${Connection} me=${me} />` : null}</header>
    <main id="main" ref=${main} tabindex="-1">${signed ? html`<${Stale} />` : null}${!signed ? html`<${SignIn} error=${error} onSigned=${() => { setError(null); setSigned(true); }} />`
      : me === null ? html`<${Failure} error=${error} />${error ? null : html`<${Loading} what="the page" />`}`
      : first === "jobs" && id ? html`<${Job} key=${id} id=${decodeURIComponent(id)} me=${me} />`
      : Page ? html`<${Page} me=${me} />` : html`<h1>There is no page ${plain(where)}</h1><p><a href="#/">Now</a> shows the GPUs and the jobs.</p>`}</main>`;
}

function Connection({ me }) {
  const { state, problem } = useLive();
  const [word, sign] = state === "live" ? ["live", "●"] : state === "waiting" ? ["not connected, trying again", "!"] : ["connecting", "○"];
  return html`<div class="connection" role="status" title=${plain(problem?.message)}><span class=${`sign ${state}`} aria-hidden="true">${sign}</span> ${word}
    ${me?.user ? html`<span class="quiet">${plain(me.user, 60)}${me.role === "admin" ? ", admin" : ""}</span>` : null}</div>`;
}

function Stale() {
  const { state, at, problem } = useLive();
  const who = problem?.status === 0 && signInBy === "code" ? "dashboard" : "manager";
  return state !== "waiting" || !at ? null : html`<p class="problem"><span aria-hidden="true">!</span> The ${who} does not answer. What is shown is of ${clock(at)} or earlier, and catches up by itself.
    ${problem ? html`<br /><span class="quiet"><${Phrase} text=${sentence(problem.message)} /></span>` : null}</p>`;
}

function SignIn({ error, onSigned }) {
  const [token, setToken] = useState("");
  if (signInBy === "code") {
    return html`<section class="card narrow"><h1>Tiresias</h1><${Failure} error=${error} />
      <p>Run <code>tir dashboard</code> and open the address that it prints. The address is good once, for a minute; this tab then has a session until the dashboard ends.</p></section>`;
  }
  const submit = (event) => { event.preventDefault(); session.set(token.trim()); onSigned(); };
  return html`<section class="card narrow"><h1>Sign in</h1><${Failure} error=${error} />
    <form onSubmit=${submit}><label class="field">Token<input type="password" autocomplete="off" value=${token} onInput=${(event) => setToken(event.target.value)} required /></label>
      <p class="quiet">An admin makes one with <code>tir token create</code>. It is kept in this tab only.</p>
      <div class="buttons"><button type="submit" class="main">Sign in</button></div></form></section>`;
}

const problem = await signIn();
const box = document.getElementById("app");
box.textContent = "";
render(html`<${App} problem=${problem} />`, box);
