#pragma once
// `codecfs refs`: kerchunk references, with which readers of Zarr read the chunks of an HDF5 file (or of a zip archive)
// where they are, without codecfs. Source: kerchunk's specification of references, version 1.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "backends/api/source.h"
#include "base/result.h"
#include "commands/reference_sink.h"

namespace codecfs::commands {

struct References {
  uint64_t chunks = 0;   // references to places in the file
  uint64_t inlined = 0;  // chunks that are part of the references, as their stored bytes are no chunks of Zarr
  uint64_t inlined_bytes = 0;
};

/// Collects the references to a source. EOPNOTSUPP for sources that are not one file, and for variables with data that
/// is not in it and is too large to be inlined (16 MiB for a variable).
Result<References> collect_references(std::unique_ptr<Source> source, ReferenceSink& sink);

/// Writes them as JSON, in pieces, with `write`. `url`: how readers name the source.
std::unique_ptr<ReferenceSink> make_json_references(std::string url,
                                                    std::function<Result<>(std::string_view text)> write);

/// The JSON of a source that others use meanwhile and that outlives the call. EFBIG for more than 256 MiB.
Result<std::string> references_text(Source& source, const std::string& url);

}  // namespace codecfs::commands
