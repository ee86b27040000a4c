// Headers that only pass a cuBLAS handle around need its name; its functions are not emulated.
#pragma once
typedef struct cublasContext* cublasHandle_t;
