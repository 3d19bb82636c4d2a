"""The questions that there are, one file each: the request, its reply, and what a client and a
server do with them."""

from fedwad.federation.message import Reply, Request
from fedwad.federation.requests.atoms import AtomsRequest, CellSums
from fedwad.federation.requests.describe import DescribeRequest, Description
from fedwad.federation.requests.labels import Labels, LabelsRequest
from fedwad.federation.requests.moments import Moments, MomentsRequest
from fedwad.federation.requests.private import PrivateReply, PrivateRequest
from fedwad.federation.requests.prototypes import Prototypes, PrototypesRequest
from fedwad.federation.requests.summary import SummaryReply, SummaryRequest
from fedwad.federation.requests.train import EvaluateRequest, Evaluation, TrainReply, TrainRequest
from fedwad.federation.requests.transport import CellsRequest, TransportReply, TransportRequest

__all__ = ["KINDS", "REPLIES", "REQUESTS"]

#: All requests. What is not here is no request, whatever it looks like.
REQUESTS: tuple[type[Request], ...] = (
    DescribeRequest,
    MomentsRequest,
    SummaryRequest,
    TransportRequest,
    CellsRequest,
    AtomsRequest,
    LabelsRequest,
    PrototypesRequest,
    PrivateRequest,
    TrainRequest,
    EvaluateRequest,
)
#: All replies. What is not here does not leave a client.
REPLIES: tuple[type[Reply], ...] = (
    Description,
    Moments,
    SummaryReply,
    TransportReply,
    CellSums,
    Labels,
    Prototypes,
    PrivateReply,
    TrainReply,
    Evaluation,
)
#: The kind of each request, by its exact type: a subclass or a changed attribute passes for nothing
#: else.
KINDS: dict[type, str] = {request: request.kind for request in REQUESTS}
