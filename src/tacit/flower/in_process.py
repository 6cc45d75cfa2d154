"""Flower without processes: a Grid that calls the ClientApp here, through Flower's own bytes.

Every message is turned into the bytes that Flower sends and read again from them, in both
directions. What is not carried over a wire that way is not carried here either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tacit.flower.records import flower

RUN = 1
Tap = Callable[[Literal["to node", "to server"], int, bytes], None]


@dataclass
class InProcessGrid:
    """Nodes by number, each with the settings that its SuperNode would give its ClientApp.

    `tap` sees the bytes of every message, with its direction and the number of the node.
    """

    client_app: Any
    node_configs: Mapping[int, Mapping[str, str]]
    tap: Tap | None = None
    _replies: dict[str, Any] = field(default_factory=dict)
    _sent: int = 0

    def __post_init__(self) -> None:
        """Flower asks in which run a message is made; in its processes that is set from outside."""
        identity = flower("flwr.supercore.task_identity").TaskIdentity
        identity.run_id, identity.node_id, identity.task_id = RUN, RUN, RUN

    def get_node_ids(self) -> Iterable[int]:
        return list(self.node_configs)

    def push_messages(self, messages: Iterable[Any]) -> Iterable[str]:
        numbers = []
        for message in messages:
            self._sent += 1
            number, node = f"message-{self._sent}", int(message.metadata.dst_node_id)
            request = self._carried(message, "to node", node, number)
            reply = self.client_app(request, self._context(node))
            self._replies[number] = self._carried(reply, "to server", node, f"reply-{self._sent}")
            numbers.append(number)
        return numbers

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Any]:
        return [self._replies.pop(number) for number in message_ids if number in self._replies]

    def _carried(
        self, message: Any, direction: Literal["to node", "to server"], node: int, number: str
    ) -> Any:
        """The message as it arrives, read from its bytes."""
        serde = flower("flwr.common.serde")
        packed = serde.message_to_proto(message)
        packed.metadata.message_id = number
        content = packed.SerializeToString()
        if self.tap is not None:
            self.tap(direction, node, content)
        return serde.message_from_proto(type(packed).FromString(content))

    def _context(self, node: int) -> Any:
        app = flower()
        return app.Context(
            run_id=RUN,
            node_id=node,
            node_config=dict(self.node_configs[node]),
            state=app.RecordDict(),
            run_config={},
        )
