// Any text as a filter spec and as a filter rule: a pipeline that prints and parses back to itself and keeps its
// filters when it is arranged, or an error of one line with a position.

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "filters/core/codec_json.h"
#include "filters/core/filter_rules.h"
#include "filters/core/filter_spec.h"
#include "require.h"

namespace {

using codecfs::FilterStage;
using codecfs::Result;
namespace filters = codecfs::filters;

bool same(const std::vector<FilterStage>& a, const std::vector<FilterStage>& b) {
  return std::ranges::equal(a, b, [](const FilterStage& left, const FilterStage& right) {
    return left.id == right.id && left.parameters == right.parameters;
  });
}

void check_error(const codecfs::Error& error) {
  require(error.code == EINVAL, "an error is EINVAL");
  require(error.reason.find(" of \"") != std::string::npos, "an error tells the place");
  require(error.reason.size() < 500, "an error is short");
  require(std::ranges::all_of(error.reason, [](char c) { return static_cast<unsigned char>(c) >= ' '; }),
          "an error is one line");
}

void check_chain(const std::vector<FilterStage>& chain) {
  require(chain.size() <= filters::kMaxChain, "a chain is bounded");
  const Result<std::string> printed = filters::print_filter_spec(chain);
  require(printed.has_value(), "what was parsed can be printed");
  const Result<std::vector<FilterStage>> again = filters::parse_filter_spec(*printed);
  require(again.has_value() && same(*again, chain), "what was printed parses back to itself");

  const std::vector<FilterStage> arranged = filters::arrange_chain(chain);
  require(same(filters::arrange_chain(arranged), arranged), "an arranged chain stays as it is");
  for (const FilterStage& stage : chain)
    require(std::ranges::count(arranged, stage.id, &FilterStage::id) == 1, "each filter is there once");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto chain = filters::parse_filter_spec(text))
    check_chain(*chain);
  else
    check_error(chain.error());

  filters::FilterRules rules;
  if (const Result<> added = rules.add(text); !added) {
    check_error(added.error());
    require(rules.empty(), "a rule that is refused leaves nothing behind");
    return 0;
  }
  for (const std::string& name : rules.names()) {
    require(name.starts_with('/'), "names are full names");
    require(rules.resolve(name).has_value(), "a rule applies to the names that it mentions");
  }
  require(rules.add("none").has_value() && rules.resolve("/no rule").has_value(), "none is for all");
  return 0;
}
