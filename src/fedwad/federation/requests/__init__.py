"""The requests, one file each: a request, its reply, and what client and server do with them."""

from fedwad.errors import FederationError
from fedwad.federation.message import Reply, Request
from fedwad.federation.requests.atoms import AtomsRequest, CellSums
from fedwad.federation.requests.blocks import BlocksReply, BlocksRequest
from fedwad.federation.requests.describe import DescribeRequest, Description
from fedwad.federation.requests.labels import Labels, LabelsRequest
from fedwad.federation.requests.moments import Moments, MomentsRequest
from fedwad.federation.requests.private import PrivateReply, PrivateRequest
from fedwad.federation.requests.private_schema import PrivateSchemaReply, PrivateSchemaRequest
from fedwad.federation.requests.prototypes import Prototypes, PrototypesRequest
from fedwad.federation.requests.schema import (
    AdoptSchemaReply,
    AdoptSchemaRequest,
    ProfileReply,
    ProfileRequest,
)
from fedwad.federation.requests.summary import SummaryReply, SummaryRequest
from fedwad.federation.requests.train import EvaluateRequest, Evaluation, TrainReply, TrainRequest
from fedwad.federation.requests.transport import CellsRequest, TransportReply, TransportRequest

__all__ = ["REPLIES", "REQUESTS", "kind_of"]

#: All requests; an object of any other type, a subclass included, is refused.
REQUESTS: tuple[type[Request], ...] = (
    DescribeRequest,
    ProfileRequest,
    AdoptSchemaRequest,
    MomentsRequest,
    SummaryRequest,
    BlocksRequest,
    TransportRequest,
    CellsRequest,
    AtomsRequest,
    LabelsRequest,
    PrototypesRequest,
    PrivateRequest,
    PrivateSchemaRequest,
    TrainRequest,
    EvaluateRequest,
)
#: All replies. Nothing else leaves a client.
REPLIES: tuple[type[Reply], ...] = (
    Description,
    ProfileReply,
    AdoptSchemaReply,
    Moments,
    SummaryReply,
    BlocksReply,
    TransportReply,
    CellSums,
    Labels,
    Prototypes,
    PrivateReply,
    PrivateSchemaReply,
    TrainReply,
    Evaluation,
)
_KINDS: dict[type, str] = {request: request.kind for request in REQUESTS}


def kind_of(request: object) -> str:
    """The kind of a request, by its exact type; FederationError if it is not a request."""
    kind = _KINDS.get(type(request))
    if kind is None:
        raise FederationError(f"A message of type {type(request).__name__} is not a request.")
    return kind
