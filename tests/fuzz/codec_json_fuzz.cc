// Any text as the codecs of a .zarray: {"compressor": ..., "filters": ..., "dtype": ...}, a list of filters, or one
// compressor. Result: a pipeline that survives printing and parsing as JSON and as a filter spec, or an error.

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "filters/core/codec_json.h"
#include "filters/core/filter_spec.h"
#include "filters/core/pipeline.h"
#include "model/json.h"
#include "require.h"

namespace {

using codecfs::FilterStage;
using codecfs::Json;
using codecfs::Result;
namespace filters = codecfs::filters;
using Chain = std::vector<FilterStage>;

bool same(const Chain& a, const Chain& b) {
  return std::ranges::equal(a, b, [](const FilterStage& left, const FilterStage& right) {
    return left.id == right.id && left.parameters == right.parameters;
  });
}

void check_error(const codecfs::Error& error) {
  require(error.code == EINVAL || error.code == EIO || error.code == ENOTSUP, "an error is EINVAL, EIO or ENOTSUP");
  require(!error.reason.empty(), "an error has a reason");
}

/// JSON -> pipeline -> JSON -> pipeline: the same pipeline, and from then on the same JSON.
void check_json(const Chain& chain, uint64_t item_size) {
  const Json printed = filters::print_codecs(chain);
  require(printed.is_array() && printed.size() == chain.size(), "each stage is printed");
  const std::string text = codecfs::print_json(printed);
  const Result<Json> parsed = codecfs::parse_json(text);
  require(parsed.has_value(), "what was printed is JSON");
  const Result<Chain> again = filters::parse_zarr_codecs(nullptr, *parsed, item_size);
  require(again.has_value() && same(*again, chain), "what was printed parses back to the same filters");
  require(codecfs::print_json(filters::print_codecs(*again)) == text, "and prints as before");
}

/// The same pipeline without JSON, as in an HDF5 file. After one conversion through JSON it must not change.
void check_spec(const Chain& chain, uint64_t item_size) {
  const Result<std::string> spec = filters::print_filter_spec(chain);
  if (!spec) {
    require(spec.error().code == ENODATA, "a chain without a spec says so");
    return;
  }
  const Result<Chain> numbers = filters::parse_filter_spec(*spec);
  if (!numbers) {
    require(chain.size() > filters::kMaxChain, "a spec that was printed parses");
    return;
  }
  require(same(*numbers, chain), "a spec means the same chain");
  const Result<Chain> settled = filters::parse_zarr_codecs(nullptr, filters::print_codecs(*numbers), item_size);
  if (!settled) return check_error(settled.error());  // numbers that no codec's JSON may have
  check_json(*settled, item_size);
}

void check(const Json& compressor, const Json& list, const codecfs::DataType& type) {
  const Result<Chain> chain = filters::parse_zarr_codecs(compressor, list, type.size);
  if (!chain) return check_error(chain.error());
  check_json(*chain, type.size);
  check_spec(*chain, type.size);
  const filters::ChunkShape chunk{.bytes = 64 * type.size, .type = type, .shape = {100, 16}, .chunks = {4, 16}};
  if (const auto pipeline = filters::Pipeline::make(*chain, chunk); !pipeline) check_error(pipeline.error());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Result<Json> json = codecfs::parse_json(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!json) return 0;
  codecfs::DataType type = *codecfs::parse_dtype("<f4");
  if (!json->is_object()) {
    check(nullptr, *json, type);
    return 0;
  }
  if (json->contains("dtype")) {
    if (Result<codecfs::DataType> given = codecfs::parse_dtype((*json)["dtype"])) type = *std::move(given);
  }
  if (json->contains("compressor") || json->contains("filters"))
    check(json->value("compressor", Json()), json->value("filters", Json()), type);
  else
    check(*json, nullptr, type);
  return 0;
}
