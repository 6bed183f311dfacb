#pragma once
// The functions of netCDF-C that a codec calls from NCZ_modify_parameters to query the variable: nc_inq_var,
// nc_inq_type, nc_inq_dimlen, nc_inq_var_chunking and nc_inq_var_endian. The program exports its own versions, which
// the loader finds before those of a libnetcdf that the plugin links; they know one variable, that of the current
// thread's call.

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
