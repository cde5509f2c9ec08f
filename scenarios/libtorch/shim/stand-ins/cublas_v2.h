// What ATen's header of the CUDA context names of libraries whose headers nothing here needs:
// handles, which are pointers, and states, which are numbers.
#pragma once

typedef struct cublasContext* cublasHandle_t;
typedef struct cublasLtContext* cublasLtHandle_t;
typedef struct cusparseContext* cusparseHandle_t;
typedef struct cusolverDnContext* cusolverDnHandle_t;

enum cublasStatus_t {};
enum cusolverStatus_t {};
enum cusparseStatus_t {};
