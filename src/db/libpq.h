// db/libpq.h: PostgreSQL's client library, loaded when a database is in a server. Private to the layer.
#pragma once

#include "det/err.h"
#include "sys/library.h"
#include <libpq-fe.h>

#define PQ_FUNCTIONS(F)   \
    F(connectdbParams)    \
    F(finish)             \
    F(status)             \
    F(errorMessage)       \
    F(socket)             \
    F(serverVersion)      \
    F(parameterStatus)    \
    F(transactionStatus)  \
    F(conninfoParse)      \
    F(conninfoFree)       \
    F(setnonblocking)     \
    F(setNoticeProcessor) \
    F(enterPipelineMode)  \
    F(exitPipelineMode)   \
    F(pipelineSync)       \
    F(sendPrepare)        \
    F(sendQueryPrepared)  \
    F(sendQueryParams)    \
    F(flush)              \
    F(consumeInput)       \
    F(isBusy)             \
    F(getResult)          \
    F(exec)               \
    F(resultStatus)       \
    F(resultErrorField)   \
    F(resultErrorMessage) \
    F(cmdTuples)          \
    F(ntuples)            \
    F(ftype)              \
    F(getisnull)          \
    F(getvalue)           \
    F(getlength)          \
    F(clear)

#define PQ_MEMBER(name) __typeof__(PQ##name) *name;
#define PQ_NAME(name) "PQ" #name,

extern struct libpq {
    PQ_FUNCTIONS(PQ_MEMBER)
} pq;

int libpq_load(det_err *err);
