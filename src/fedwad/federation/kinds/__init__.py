"""The questions that there are, one file each: the request, its reply, and what a client and a server do with them."""

from fedwad.federation.kinds.describe import DescribeRequest, Description
from fedwad.federation.kinds.moments import Moments, MomentsRequest
from fedwad.federation.kinds.summary import SummaryReply, SummaryRequest
from fedwad.federation.kinds.transport import CellsRequest, TransportReply, TransportRequest
from fedwad.federation.message import Reply, Request

__all__ = ["KINDS", "REPLIES", "REQUESTS"]

#: All requests. What is not here is no request, whatever it looks like.
REQUESTS: tuple[type[Request], ...] = (
    DescribeRequest,
    MomentsRequest,
    SummaryRequest,
    TransportRequest,
    CellsRequest,
)
#: All replies. What is not here does not leave a client.
REPLIES: tuple[type[Reply], ...] = (
    Description,
    Moments,
    SummaryReply,
    TransportReply,
)
#: The kind of each request, by its exact type: a subclass or a changed attribute passes for nothing else.
KINDS: dict[type, str] = {request: request.kind for request in REQUESTS}
