#pragma once
// `codecfs convert` from HDF5 to HDF5: a copy of the file in which skipped members are removed, variables re-encoded as
// `codecfs recode` does it, and which is compacted. So everything that HDF5 has is kept.

#include <memory>
#include <string>
#include <string_view>

#include "backends/api/source.h"
#include "base/result.h"
#include "commands/convert.h"
#include "commands/dataset_info.h"
#include "commands/partial.h"

namespace codecfs::commands {

/// Makes the result at the path of `partial`. `info` is that of `source`; `options.skip` has paths that it has
/// ("/g/v"). EOPNOTSUPP: the copy would not find data that is in other files, a rule cannot be followed, or a skipped
/// member is needed by others.
Result<Converted> convert_file(Partial& partial, std::unique_ptr<Source> source, const DatasetInfo& info,
                               ConvertOptions options);

}  // namespace codecfs::commands
