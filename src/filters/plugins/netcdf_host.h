#pragma once
// netCDF's side of NCZ_modify_parameters. A codec asks its caller about the variable at hand through five functions of
// netCDF-C: nc_inq_var, nc_inq_type, nc_inq_dimlen, nc_inq_var_chunking and nc_inq_var_endian. The program exports its
// own, which the loader finds before those of a libnetcdf that the plugin brings along; they know one variable, that of
// the call which the asking thread is in.

#include "filters/core/filter.h"

namespace codecfs::filters {

/// While it lives, this thread's questions are answered with `chunk`'s variable, named by the ids below.
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
