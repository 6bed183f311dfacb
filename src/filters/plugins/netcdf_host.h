#pragma once
// The functions of netCDF-C that a plugin may call, also one that does not link libnetcdf: the inquiries about the
// variable, its dimensions and its attributes from NCZ_modify_parameters, and ncaux_h5filterspec_fix8 from filters,
// with its two older names. The program exports its own versions, which the loader finds before those of a libnetcdf
// that the plugin links; they know one variable, that of the current thread's call, and no attributes of it.
// src/CMakeLists.txt lists what is exported.

#include "filters/core/filter.h"

namespace codecfs::filters {

/// During its lifetime, the queries of this thread are answered with `chunk`'s variable, which has the ids below.
class NetcdfVariableInCall {
 public:
  static constexpr int kGroup = 65536;  // the ncid
  static constexpr int kVariable = 0;   // the varid

  explicit NetcdfVariableInCall(const ChunkShape& chunk);
  NetcdfVariableInCall(const NetcdfVariableInCall&) = delete;
  NetcdfVariableInCall& operator=(const NetcdfVariableInCall&) = delete;
  ~NetcdfVariableInCall();
};

}  // namespace codecfs::filters
