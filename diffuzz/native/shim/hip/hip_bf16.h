#pragma once
#include "hip_types.h"
