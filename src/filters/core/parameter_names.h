#pragma once
// What the numbers of a filter of HDF5 mean: 32001,2,2,4,8192,5,1,1 is Blosc with LZ4 at level 5. Known are the filters
// of libhdf5 and h5py, and the registered ones that data has most often, whether or not they are installed.

#include <span>
#include <string>
#include <vector>

#include "model/json_value.h"
#include "model/variable.h"

namespace codecfs::filters {

struct NamedParameter {
  std::string name;  // of ASCII letters and spaces: "level", "chunk bytes"
  JsonValue value;   // a number or a text
};

/// The parameters with which the filter encodes: first what users choose, then sizes and versions. Empty if the filter
/// is not known, has none, or has not as many as it stores.
std::vector<NamedParameter> name_parameters(const FilterStage& stage);

/// "compressor zstd, level 7, shuffle bits".
std::string parameters_text(std::span<const NamedParameter> parameters);

/// {"compressor": "zstd", "level": 7, "chunk_bytes": 8192}.
Json parameters_json(std::span<const NamedParameter> parameters);

}  // namespace codecfs::filters
