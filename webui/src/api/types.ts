// Unit types.ts: written by generate-types.mjs from the OpenAPI document of the master; do not edit.
import type { ApiNumber } from '../text/format.ts';

export interface Experiment {
    id: number;
    type: "TYPE_EXPERIMENT" | "TYPE_GENERIC";
    state: "STATE_PAUSED" | "STATE_ACTIVE" | "STATE_STOPPING_COMPLETED" | "STATE_STOPPING_CANCELED" | "STATE_STOPPING_KILLED" | "STATE_STOPPING_ERROR" | "STATE_COMPLETED" | "STATE_CANCELED" | "STATE_ERROR" | "STATE_DELETING" | "STATE_DELETE_FAILED" | "STATE_DELETED";
    name: string | null;
    description: string | null;
    notes: string | null;
    labels: string[];
    archived: boolean;
    userId: number;
    forkedFrom: number | null;
    progress: ApiNumber;
    startTime: string | null;
    endTime: string | null;
    numTrials: number;
    searcherType: string | null;
    searcherMetric: string | null;
    smallerIsBetter: boolean;
    bestTrialId: number | null;
    bestTrialSearcherMetric: ApiNumber;
    resourcePool: string | null;
    jobId: string | null;
    modelDefinition: string | null;
    reason: string | null;
    private: boolean;
}

export interface Trial {
    id: number;
    experimentId: number;
    number: number;
    requestId: string | null;
    taskId: string | null;
    state: "STATE_PAUSED" | "STATE_ACTIVE" | "STATE_STOPPING_COMPLETED" | "STATE_STOPPING_CANCELED" | "STATE_STOPPING_KILLED" | "STATE_STOPPING_ERROR" | "STATE_COMPLETED" | "STATE_CANCELED" | "STATE_ERROR" | "STATE_DELETING" | "STATE_DELETE_FAILED" | "STATE_DELETED";
    hparams: Record<string, unknown> | null;
    seed: number;
    restarts: number;
    runId: number;
    startTime: string | null;
    endTime: string | null;
    totalBatchesProcessed: number;
    searcherMetricValue: ApiNumber;
    bestValidation: Record<string, unknown> | null;
    latestValidation: Record<string, unknown> | null;
    latestCheckpoint: string | null;
    warmStartCheckpointUuid: string | null;
    operation: number | null;
    closing: boolean;
    runnerState: string | null;
    progress: ApiNumber;
    reason: string | null;
}

export interface Allocation {
    allocationId: string | null;
    taskId: string | null;
    trialId: number;
    runId: number;
    state: "STATE_PENDING" | "STATE_ASSIGNED" | "STATE_PULLING" | "STATE_STARTING" | "STATE_RUNNING" | "STATE_WAITING" | "STATE_TERMINATING" | "STATE_TERMINATED";
    slots: number;
    startTime: string | null;
    endTime: string | null;
    isReady: boolean;
    preempt: boolean;
    kill: boolean;
    preemptionAcked: boolean;
    invalidHp: boolean;
    exit: "KILLED" | "PREEMPTED" | "DONE" | "TASK_FAILED" | "NODE_FAILED" | "ABORTED" | "RESTORE_FAILED" | "UNRECOVERABLE";
    exitStatus: number;
    reason: string | null;
    token: number;
    logOffset: number;
    assignedTime: string | null;
    fromBatch: number | null;
    toBatch: number | null;
}

export interface Checkpoint {
    uuid: string | null;
    taskId: string | null;
    allocationId: string | null;
    experimentId: number;
    trialId: number;
    state: "STATE_ACTIVE" | "STATE_COMPLETED" | "STATE_ERROR" | "STATE_PARTIALLY_DELETED" | "STATE_DELETED";
    reportTime: string | null;
    stepsCompleted: number;
    size: number;
    resources: Record<string, unknown> | null;
    metadata: Record<string, unknown> | null;
    searcherMetric: ApiNumber;
}

export interface Report {
    trialId: number;
    trialRunId: number;
    group: string | null;
    stepsCompleted: number;
    reportTime: string | null;
    metrics: Record<string, unknown> | null;
}

export interface Summary {
    group: string | null;
    name: string | null;
    count: number;
    sum: ApiNumber;
    min: ApiNumber;
    max: ApiNumber;
    last: ApiNumber;
}

export interface LogLine {
    id: number;
    trialId: number;
    timestamp: string | null;
    level: "LOG_LEVEL_UNSPECIFIED" | "LOG_LEVEL_TRACE" | "LOG_LEVEL_DEBUG" | "LOG_LEVEL_INFO" | "LOG_LEVEL_WARNING" | "LOG_LEVEL_ERROR" | "LOG_LEVEL_CRITICAL";
    rankId: number | null;
    allocationId: string | null;
    agentId: string | null;
    containerId: string | null;
    source: string | null;
    stdtype: string | null;
    log: string | null;
}

export interface Job {
    jobId: string | null;
    experimentId: number;
    state: "STATE_QUEUED" | "STATE_SCHEDULED" | "STATE_SCHEDULED_BACKFILLED" | "STATE_ENDED" | "STATE_PAUSED";
    priority: number;
    weight: ApiNumber;
    resourcePool: string | null;
    submissionTime: string | null;
    position: ApiNumber;
}

export interface User {
    id: number;
    username: string | null;
    displayName: string | null;
    admin: boolean;
    active: boolean;
    modifiedAt: string | null;
}

export interface Template {
    name: string | null;
    config: string | null;
    userId: number;
}

export interface GetAllocationsAllocSignalsPreemptionQuery {
    timeout_seconds?: number;
}

export interface PostAuthLoginBody {
    username: string;
    password: string;
    cookie?: boolean;
}

export interface PostAuthRedeemBody {
    code: string;
}

export interface PostCheckpointsBody {
    uuid: string;
    trialRunId: number;
    stepsCompleted: number;
    resources?: Record<string, unknown> | null;
    metadata?: Record<string, unknown> | null;
}

export interface GetCheckpointsQuery {
    after?: string;
    offset?: number;
    limit?: number;
    sortBy?: string;
    orderBy?: "ORDER_BY_ASC" | "ORDER_BY_DESC";
    states?: string;
    experimentId?: number;
}

export interface PostConfigsCheckBody {
    config: string;
    template?: string;
    type?: "TYPE_EXPERIMENT" | "TYPE_GENERIC";
}

export interface GetExperimentLabelsQuery {
    offset?: number;
    limit?: number;
}

export interface PostExperimentsBody {
    config: string;
    code?: string;
    template?: string;
    type?: "TYPE_EXPERIMENT" | "TYPE_GENERIC";
    activate?: boolean;
    validateOnly?: boolean;
    parentId?: number | null;
}

export interface GetExperimentsQuery {
    after?: string;
    offset?: number;
    limit?: number;
    sortBy?: string;
    orderBy?: "ORDER_BY_ASC" | "ORDER_BY_DESC";
    states?: string;
    labels?: string;
    userIds?: string;
    name?: string;
    description?: string;
    search?: string;
    metricBelow?: ApiNumber;
    metricAbove?: ApiNumber;
    endTimeAfter?: string;
    archived?: boolean;
}

export interface PostExperimentsContinueBody {
    id: number;
    overrideConfig?: string;
}

export interface PatchExperimentsExperimentBody {
    name?: string;
    description?: string;
    notes?: string;
    labels?: string[];
    resources?: { priority: number | null; maxSlots: number | null; weight: ApiNumber; };
}

export interface GetExperimentsExperimentCheckpointsQuery {
    after?: string;
    offset?: number;
    limit?: number;
    sortBy?: string;
    orderBy?: "ORDER_BY_ASC" | "ORDER_BY_DESC";
    states?: string;
}

export interface GetExperimentsExperimentImportanceQuery {
    metric?: string;
    group?: string;
}

export interface GetExperimentsExperimentSeriesQuery {
    group?: string;
    name?: string;
    axis?: "batch" | "time";
    from?: number | null;
    to?: number | null;
    maxDatapoints?: number;
    trials?: string;
}

export interface GetExperimentsExperimentTrialsQuery {
    after?: string;
    offset?: number;
    limit?: number;
    sortBy?: string;
    orderBy?: "ORDER_BY_ASC" | "ORDER_BY_DESC";
    states?: string;
}

export interface GetExperimentsExperimentTrialsTableQuery {
    metrics?: string;
}

export interface GetJobsQuery {
    offset?: number;
    limit?: number;
}

export interface PatchJobsJobBody {
    priority?: number | null;
    weight?: ApiNumber;
    aheadOf?: string;
}

export interface PostSearchPreviewBody {
    config: string;
    template?: string;
}

export interface PostSearchSimulateBody {
    config: string;
    template?: string;
}

export interface GetSeriesQuery {
    group?: string;
    name?: string;
    axis?: "batch" | "time";
    from?: number | null;
    to?: number | null;
    maxDatapoints?: number;
    trials?: string;
}

export interface GetSessionsQuery {
    offset?: number;
    limit?: number;
}

export interface GetSlotsQuery {
    offset?: number;
    limit?: number;
}

export interface GetStreamQuery {
    topics?: string;
    lastEventId?: string;
}

export interface PostTaskLogsBody {
    logs: ({ timestamp: string; level: "LOG_LEVEL_UNSPECIFIED" | "LOG_LEVEL_TRACE" | "LOG_LEVEL_DEBUG" | "LOG_LEVEL_INFO" | "LOG_LEVEL_WARNING" | "LOG_LEVEL_ERROR" | "LOG_LEVEL_CRITICAL"; rankId: number | null; source: string; stdtype: string | null; agentId: string | null; containerId: string | null; log: string | null; })[];
}

export interface GetTemplatesQuery {
    after?: string;
    offset?: number;
    limit?: number;
    sortBy?: string;
    orderBy?: "ORDER_BY_ASC" | "ORDER_BY_DESC";
}

export interface PutTemplatesNameBody {
    config: string;
}

export interface GetTrialsTrialAllocationsQuery {
    after?: string;
    offset?: number;
    limit?: number;
    sortBy?: string;
    orderBy?: "ORDER_BY_ASC" | "ORDER_BY_DESC";
}

export interface GetTrialsTrialCheckpointsQuery {
    after?: string;
    offset?: number;
    limit?: number;
    sortBy?: string;
    orderBy?: "ORDER_BY_ASC" | "ORDER_BY_DESC";
    states?: string;
}

export interface PostTrialsTrialEarlyExitBody {
    reason: "EXITED_REASON_INVALID_HP" | "EXITED_REASON_INIT_INVALID_HP";
}

export interface GetTrialsTrialLogsQuery {
    follow?: boolean;
    after?: number;
    before?: number;
    limit?: number;
    offset?: number;
    orderBy?: "ORDER_BY_ASC" | "ORDER_BY_DESC";
    timestampAfter?: string;
    timestampBefore?: string;
    level?: string;
    stdtype?: string;
    source?: string;
    rankId?: string;
    searchText?: string;
}

export interface GetTrialsTrialLogsExtentQuery {
    cursor?: string;
    anyCase?: boolean;
    timestampAfter?: string;
    timestampBefore?: string;
    level?: string;
    stdtype?: string;
    source?: string;
    rankId?: string;
    searchText?: string;
}

export interface GetTrialsTrialLogsSearchQuery {
    cursor?: string;
    anyCase?: boolean;
    timestampAfter?: string;
    timestampBefore?: string;
    level?: string;
    stdtype?: string;
    source?: string;
    rankId?: string;
    searchText?: string;
}

export interface GetTrialsTrialMetricsQuery {
    group?: string;
    after?: number;
    offset?: number;
    limit?: number;
}

export interface PostTrialsTrialMetricsBody {
    trialRunId: number;
    reports: ({ group: string; stepsCompleted: number; reportTime: string; metrics: Record<string, unknown> | null; })[];
}

export interface PostTrialsTrialProgressBody {
    progress: ApiNumber;
}

export interface PostTrialsTrialRunnerMetadataBody {
    state: string;
}

export interface PostTrialsTrialSearcherCompletedOperationBody {
    op?: { length: number; };
    searcherMetric: unknown;
}

export interface GetTrialsTrialSeriesQuery {
    group?: string;
    name?: string;
    maxDatapoints?: number;
}

export interface GetUsersQuery {
    after?: string;
    offset?: number;
    limit?: number;
    sortBy?: string;
    orderBy?: "ORDER_BY_ASC" | "ORDER_BY_DESC";
}

export interface PostUsersBody {
    username?: string;
    displayName?: string;
    password?: string;
    admin?: boolean;
    active?: boolean;
}

export interface PatchUsersUserBody {
    username?: string;
    displayName?: string;
    password?: string;
    admin?: boolean;
    active?: boolean;
}

export interface PutUsersUserAgentUserBody {
    uid: number;
    gid: number;
}
