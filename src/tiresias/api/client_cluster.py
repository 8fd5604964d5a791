"""The part of the Python client that is about the cluster and its manager."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tiresias.api.requester import Requester, Value, query_of, quoted


class Cluster:
    """Nodes, policy, limits, usage, notices, tokens, and the end of the manager."""

    def __init__(self, requester: Requester):
        self._requester = requester

    def status(self) -> Value:
        return self._requester.value("GET", "/api/v1/status")

    def whoami(self) -> Value:
        """The user and the role under which the manager knows this client."""
        return self._requester.value("GET", "/api/v1/whoami")

    def nodes(self) -> list[Value]:
        nodes: list[Value] = self._requester.value("GET", "/api/v1/nodes")["nodes"]
        return nodes

    def drain(self, what: str, reason: str = "", deadline_s: float | None = None) -> Value:
        """Take a node, or one GPU as `node:index`, out of service; runs on it continue."""
        asked = {"reason": reason, "deadline_s": deadline_s}
        return self._requester.value("POST", f"/api/v1/nodes/{quoted(what)}/drain", asked)

    def undrain(self, what: str) -> Value:
        return self._requester.value("POST", f"/api/v1/nodes/{quoted(what)}/undrain")

    def policy(self) -> Value:
        return self._requester.value("GET", "/api/v1/policy")

    def set_policy(
        self,
        policy: str,
        options: Mapping[str, str] | None = None,
        placer: str | None = None,
        placer_options: Mapping[str, str] | None = None,
    ) -> Value:
        body = {"policy": policy, "options": dict(options or {}), "placer": placer}
        if placer_options is not None:
            body["placer_options"] = dict(placer_options)
        return self._requester.value("PUT", "/api/v1/policy", body)

    def limits(self) -> Value:
        """The limits by user; `*` stands for all users. A user without a limit of its own has that of `*`."""
        limits: Value = self._requester.value("GET", "/api/v1/limits")["limits"]
        return limits

    def set_limits(
        self,
        user: str,
        max_running_gpus: int | str | None = None,
        max_active_jobs: int | str | None = None,
    ) -> Value:
        """Set the limits of a user: a number, `none` for no limit, or None for that of `*`."""
        body = {"max_running_gpus": max_running_gpus, "max_active_jobs": max_active_jobs}
        return self._requester.value("PUT", f"/api/v1/limits/{quoted(user)}", body)

    def shares(self) -> Value:
        """The weights of tenants that allocators such as two-level go by; one that is not named has 1."""
        shares: Value = self._requester.value("GET", "/api/v1/shares")["shares"]
        return shares

    def set_shares(self, shares: Mapping[str, float]) -> Value:
        """Replace the weights of all tenants; empty: all have equal shares."""
        return self._requester.value("PUT", "/api/v1/shares", {"shares": dict(shares)})

    def usage(self, by: str = "user", since_s: float | None = None) -> list[Value]:
        query = query_of({"by": by, "since_s": since_s})
        rows: list[Value] = self._requester.value("GET", "/api/v1/usage" + query)["rows"]
        return rows

    def slowdowns(self) -> list[Value]:
        """How fast models ran in which shapes of allocations, as predicted and as measured."""
        rows: list[Value] = self._requester.value("GET", "/api/v1/slowdowns")["rows"]
        return rows

    def profiles(self) -> Value:
        """The profiles of models that jobs brought along, by name."""
        return self._requester.value("GET", "/api/v1/profiles")

    def history(self) -> Iterator[Value]:
        """One row per ended job, for a trace."""
        yield from self._requester.pages(
            "/api/v1/history", "rows", {"limit": 250}
        )  # more would block the manager

    def notify(self) -> Value:
        """Of which events of jobs this user gets notices, and where; with the secret that signs them."""
        return self._requester.value("GET", "/api/v1/notify")

    def set_notify(self, url: str, on: Sequence[str] = ()) -> Value:
        """Set it for jobs that say nothing else; an empty URL: no notices."""
        return self._requester.value("PUT", "/api/v1/notify", {"url": url, "on": list(on)})

    def test_notify(self) -> Value:
        """Have a notice sent that is about nothing."""
        value: Value = self._requester.once("POST", "/api/v1/notify/test").value()
        return value

    def prune(
        self,
        older_than_s: float,
        *,
        checkpoints: bool = False,
        all_users: bool = False,
        dry_run: bool = False,
    ) -> Value:
        """Remove the output of jobs that ended so long ago or earlier; how many jobs and bytes that were."""
        body = {
            "older_than_s": older_than_s,
            "checkpoints": checkpoints,
            "all_users": all_users,
            "dry_run": dry_run,
        }
        return self._requester.value("POST", "/api/v1/prune", body)

    def tokens(self) -> list[Value]:
        tokens: list[Value] = self._requester.value("GET", "/api/v1/tokens")["tokens"]
        return tokens

    def create_token(self, name: str, user: str, role: str = "user") -> str:
        """Create a token. Only this answer contains it."""
        body = {"name": name, "user": user, "role": role}
        token: str = self._requester.once("POST", "/api/v1/tokens", body).value()["token"]
        return token

    def revoke_token(self, name: str) -> None:
        self._requester.once("DELETE", f"/api/v1/tokens/{quoted(name)}")

    def shutdown(self, stop_jobs: bool = False) -> None:
        """End the manager; its runs continue unless `stop_jobs` is set."""
        self._requester.once("POST", "/api/v1/shutdown", {"stop_jobs": stop_jobs})
