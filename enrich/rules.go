package enrich

import "github.com/dlqbridge/dlqbridge"

// knownCodes is what is known of error names and codes, by the cause they mean.
// Names are compared without case, spaces, dashes, underscores, package names
// and a trailing "Exception" or "Error" (see squash), so one spelling stands
// for all languages'. A name that means different things to different
// libraries is left out: unclassified is better than wrong.
var knownCodes = map[dlqbridge.Cause][]string{
	dlqbridge.CauseTimeout: {
		// Operating systems and HTTP clients.
		"ETIMEDOUT", "ESOCKETTIMEDOUT", "TimeoutError", "TimedOut", "ConnectTimeout", "ConnectTimeoutError", "ReadTimeout", "ReadTimeoutError",
		"WriteTimeout", "PoolTimeout", "SocketTimeout", "RequestTimeout", "GatewayTimeout", "UND_ERR_CONNECT_TIMEOUT", "UND_ERR_HEADERS_TIMEOUT",
		"context deadline exceeded", "ERR_TIMEOUT", "CURLE_OPERATION_TIMEDOUT",
		// gRPC and Google.
		"DEADLINE_EXCEEDED",
		// AWS.
		"RequestTimeoutException", "ModelTimeoutException", "States.Timeout", "States.HeartbeatTimeout", "Sandbox.Timedout",
		// Model clients and engines.
		"APITimeoutError", "ToolTimeoutError", "TIMEOUT_TYPE_START_TO_CLOSE", "TIMEOUT_TYPE_SCHEDULE_TO_CLOSE", "TIMEOUT_TYPE_SCHEDULE_TO_START",
		"TIMEOUT_TYPE_HEARTBEAT", "SoftTimeLimitExceeded", "TimeLimitExceeded",
	},
	dlqbridge.CauseDependencyUnavailable: {
		"ECONNREFUSED", "ECONNRESET", "EHOSTUNREACH", "ENETUNREACH", "EHOSTDOWN", "ENETDOWN", "EPIPE", "EAI_AGAIN", "ENOTFOUND", "UND_ERR_SOCKET",
		"ConnectionError", "ConnectionRefusedError", "ConnectionResetError", "ConnectionAbortedError", "RemoteDisconnected", "ConnectException",
		"NoRouteToHostException", "UnknownHostException", "BrokenPipeError", "ERR_NETWORK", "CONNECTION_FAILURE",
		// HTTP words.
		"TooManyRequests", "ServiceUnavailable", "ServiceUnavailableError", "BadGateway", "InternalServerError", "rate_limit_error", "RateLimitError",
		"rate_limit_exceeded", "MODEL_RATE_LIMIT", "RateLimitExceeded",
		// gRPC and Google.
		"UNAVAILABLE", "RESOURCE_EXHAUSTED", "INTERNAL", "ABORTED", "userRateLimitExceeded", "quotaExceeded", "backendError", "internalError",
		// AWS.
		"Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled", "RequestThrottledException", "TooManyRequestsException",
		"ProvisionedThroughputExceededException", "RequestLimitExceeded", "SlowDown", "BandwidthLimitExceeded", "PriorRequestNotComplete",
		"EC2ThrottledException", "TransactionInProgressException", "ServiceUnavailableException", "InternalFailure", "InternalServerException",
		"ServiceException", "ModelNotReadyException", "ServiceQuotaExceededException", "EndpointConnectionError", "THROTTLING",
		// Model clients.
		"EventAgeExceeded", "ModelStreamErrorException", "ModelErrorException", "RATE_LIMIT_EXCEEDED", "rateLimitExceeded", "ECONNABORTED", "SlowDownException",
		"APIConnectionError", "overloaded_error", "OverloadedError", "AI_RetryError", "AI_EmptyResponseBodyError", "model_overloaded", "server_error",
	},
	dlqbridge.CausePermission: {
		"EACCES", "EPERM", "PermissionError", "Unauthorized", "Forbidden", "invalid_token", "expired_token", "token_expired", "invalid_grant",
		"insufficient_scope", "invalid_api_key", "AuthenticationError", "AuthorizationError", "PermissionDeniedError", "authentication_error",
		"permission_error", "CERT_HAS_EXPIRED",
		"PERMISSION_DENIED", "UNAUTHENTICATED", "authError", "insufficientPermissions",
		"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "UnauthorizedException", "ExpiredToken", "ExpiredTokenException",
		"InvalidClientTokenId", "UnrecognizedClientException", "SignatureDoesNotMatch", "InvalidSignatureException", "AuthFailure", "OptInRequired",
		"NotAuthorized", "NotAuthorizedException", "MissingAuthenticationToken", "MissingAuthenticationTokenException", "IncompleteSignature",
		"InvalidAccessKeyId", "TokenRefreshRequired", "RequestExpired", "KMSAccessDeniedException", "NoCredentialsError",
		"CredentialsProviderError", "States.Permissions", "NO_PERMISSIONS",
		"AI_LoadAPIKeyError", "MODEL_AUTHENTICATION", "billing_error",
		// Google's reasons (google.api.ErrorReason).
		"ACCESS_TOKEN_EXPIRED", "ACCESS_TOKEN_SCOPE_INSUFFICIENT", "ACCOUNT_STATE_INVALID", "API_KEY_INVALID", "API_KEY_SERVICE_BLOCKED",
		"CREDENTIALS_MISSING", "IAM_PERMISSION_DENIED", "SERVICE_DISABLED", "CONSUMER_SUSPENDED",
	},
	dlqbridge.CauseInvalidInput: {
		"ENOENT", "FileNotFoundError", "UnicodeDecodeError", "BadRequest", "BadRequestError", "UnprocessableEntity", "UnprocessableEntityError",
		"NotFound", "NotFoundError", "invalid_request_error", "MissingField", "MissingRequiredField", "UnsupportedMediaType",
		"INVALID_ARGUMENT", "NOT_FOUND", "OUT_OF_RANGE",
		"ValidationException", "ValidationError", "InvalidParameterValue", "InvalidParameterValueException", "InvalidParameterException",
		"InvalidParameterCombination", "MissingParameter", "SerializationException", "ResourceNotFoundException", "NoSuchKey", "NoSuchBucket",
		"NoSuchEntity", "NoSuchEntityException", "InvalidRequestException", "InvalidRequestContentException", "States.DataLimitExceeded",
		"INVALID_PARAMETER", "INVALID_JSON",
		"AI_InvalidPromptError", "AI_InvalidArgumentError", "AI_UnsupportedFunctionalityError", "InputGuardrailTripwireTriggered",
		"AI_InvalidMessageRoleError", "AI_InvalidDataContentError", "AI_MessageConversionError", "AI_TooManyEmbeddingValuesForCallError",
		"context_length_exceeded", "string_above_max_length", "request_too_large", "INVALID_PROMPT_INPUT", "MESSAGE_COERCION_FAILURE",
	},
	dlqbridge.CauseOutputContract: {
		"ModelBehaviorError", "OutputGuardrailTripwireTriggered", "UnexpectedModelBehavior",
		"AI_NoSuchToolError", "AI_InvalidToolArgumentsError", "AI_InvalidToolInputError", "AI_TypeValidationError", "AI_JSONParseError",
		"AI_NoObjectGeneratedError", "AI_NoOutputGeneratedError", "AI_ToolCallRepairError", "AI_InvalidResponseDataError", "AI_NoContentGeneratedError",
		"OutputParserException", "OUTPUT_PARSING_FAILURE", "INVALID_TOOL_RESULTS", "NoSuchToolError", "InvalidToolArgumentsError", "UnknownToolError",
		"SchemaValidationError", "OutputSchemaError", "ToolInputGuardrailTripwireTriggered", "ToolOutputGuardrailTripwireTriggered",
		"AI_NoImageGeneratedError", "AI_NoSpeechGeneratedError", "AI_NoTranscriptGeneratedError",
	},
	dlqbridge.CausePolicyLimit: {
		"MaxTurnsExceeded", "MaxStepsExceeded", "MaxIterationsExceeded", "GraphRecursionError", "GRAPH_RECURSION_LIMIT", "UsageLimitExceeded",
		"BudgetExceeded", "CostLimitExceeded", "TokenLimitExceeded", "MaxTokensReachedException", "ToolCallLimitExceeded", "LoopDetected",
		"insufficient_quota", "EventLoopException: max cycles", "finish_reason_length",
	},
	dlqbridge.CauseBusinessRule: {
		"FAILED_PRECONDITION", "PreconditionFailed", "ALREADY_EXISTS", "Conflict", "ConflictError", "ConflictException", "ConditionalCheckFailedException",
		"BusinessRuleViolation", "InsufficientFunds", "LimitReached", "card_declined",
	},
}

// httpCauses is what a status code means; others of 500 and above mean an
// unavailable dependency, other numbers nothing.
var httpCauses = map[int]dlqbridge.Cause{
	400: dlqbridge.CauseInvalidInput, 404: dlqbridge.CauseInvalidInput, 405: dlqbridge.CauseInvalidInput, 406: dlqbridge.CauseInvalidInput,
	410: dlqbridge.CauseInvalidInput, 411: dlqbridge.CauseInvalidInput, 413: dlqbridge.CauseInvalidInput, 414: dlqbridge.CauseInvalidInput,
	415: dlqbridge.CauseInvalidInput, 422: dlqbridge.CauseInvalidInput,
	401: dlqbridge.CausePermission, 403: dlqbridge.CausePermission, 407: dlqbridge.CausePermission, 511: dlqbridge.CausePermission,
	408: dlqbridge.CauseTimeout, 504: dlqbridge.CauseTimeout, 524: dlqbridge.CauseTimeout, 598: dlqbridge.CauseTimeout,
	423: dlqbridge.CauseDependencyUnavailable, 425: dlqbridge.CauseDependencyUnavailable, 429: dlqbridge.CauseDependencyUnavailable,
	409: dlqbridge.CauseBusinessRule, 412: dlqbridge.CauseBusinessRule,
}

// grpcCauses is what gRPC's numbers mean, as they stand in a code of their own.
// 0 OK, 1 CANCELLED, 2 UNKNOWN, 12 UNIMPLEMENTED and 15 DATA_LOSS say too little.
var grpcCauses = map[int]dlqbridge.Cause{
	3: dlqbridge.CauseInvalidInput, 4: dlqbridge.CauseTimeout, 5: dlqbridge.CauseInvalidInput, 6: dlqbridge.CauseBusinessRule,
	7: dlqbridge.CausePermission, 8: dlqbridge.CauseDependencyUnavailable, 9: dlqbridge.CauseBusinessRule, 10: dlqbridge.CauseDependencyUnavailable,
	11: dlqbridge.CauseInvalidInput, 13: dlqbridge.CauseDependencyUnavailable, 14: dlqbridge.CauseDependencyUnavailable, 16: dlqbridge.CausePermission,
}

// phrase is a text in a message, in lower case, with the cause it means.
type phrase struct {
	text  string
	cause dlqbridge.Cause
}

// knownPhrases are looked for in messages, the most telling first, where no
// code says anything.
var knownPhrases = []phrase{
	{"recursion limit", dlqbridge.CausePolicyLimit},
	{"max turns", dlqbridge.CausePolicyLimit},
	{"maximum number of turns", dlqbridge.CausePolicyLimit},
	{"maximum iterations", dlqbridge.CausePolicyLimit},
	{"budget exceeded", dlqbridge.CausePolicyLimit},
	{"expired token", dlqbridge.CausePermission},
	{"token has expired", dlqbridge.CausePermission},
	{"token is expired", dlqbridge.CausePermission},
	{"token expired", dlqbridge.CausePermission},
	{"not authorized to perform", dlqbridge.CausePermission},
	{"access denied", dlqbridge.CausePermission},
	{"accessdenied", dlqbridge.CausePermission},
	{"permission denied", dlqbridge.CausePermission},
	{"invalid api key", dlqbridge.CausePermission},
	{"incorrect api key", dlqbridge.CausePermission},
	{"insufficient scope", dlqbridge.CausePermission},
	{"too many requests", dlqbridge.CauseDependencyUnavailable},
	{"rate limit", dlqbridge.CauseDependencyUnavailable},
	{"rate exceeded", dlqbridge.CauseDependencyUnavailable},
	{"connection refused", dlqbridge.CauseDependencyUnavailable},
	{"connection reset", dlqbridge.CauseDependencyUnavailable},
	{"no such host", dlqbridge.CauseDependencyUnavailable},
	{"network is unreachable", dlqbridge.CauseDependencyUnavailable},
	{"service unavailable", dlqbridge.CauseDependencyUnavailable},
	{"bad gateway", dlqbridge.CauseDependencyUnavailable},
	{"internal server error", dlqbridge.CauseDependencyUnavailable},
	{"overloaded", dlqbridge.CauseDependencyUnavailable},
	{"deadline exceeded", dlqbridge.CauseTimeout},
	{"timed out", dlqbridge.CauseTimeout},
	{"gateway timeout", dlqbridge.CauseTimeout},
	{"request timeout", dlqbridge.CauseTimeout},
	{"does not match the schema", dlqbridge.CauseOutputContract},
	{"unknown tool", dlqbridge.CauseOutputContract},
}
