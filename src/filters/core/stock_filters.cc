#include "filters/core/stock_filters.h"

#include <fmt/format.h>

#include <algorithm>

#include "filters/core/filter.h"
#include "filters/core/filter_rules.h"

namespace codecfs::filters {
namespace {

constexpr uint32_t kFirstPlugin = 256;  // id
constexpr uint32_t kDeflateLevel = 4;

constexpr uint32_t kNbit = 5;
constexpr uint32_t kScaleOffset = 6;

/// Not szip, which libhdf5 may be built without.
bool is_stock(const FilterStage& stage) {
  return stage.id == kDeflateId || stage.id == kShuffleId || stage.id == kFletcher32Id || stage.id == kNbit ||
         stage.id == kScaleOffset;
}

FilterStage make_stage(uint32_t id, std::vector<uint32_t> parameters) {
  FilterStage stage;
  stage.id = id;
  stage.parameters = std::move(parameters);
  return stage;
}

}  // namespace

bool are_stock(std::span<const FilterStage> chain) { return std::ranges::all_of(chain, is_stock); }

std::vector<FilterStage> stock_chain(std::span<const FilterStage> chain, uint64_t item_size) {
  if (are_stock(chain)) return {chain.begin(), chain.end()};
  std::vector<FilterStage> stock;
  if (std::ranges::find(chain, kFletcher32Id, &FilterStage::id) != chain.end())
    stock.push_back(make_stage(kFletcher32Id, {}));
  if (item_size > 1) stock.push_back(make_stage(kShuffleId, {}));
  stock.push_back(make_stage(kDeflateId, {kDeflateLevel}));
  return arrange_chain(std::move(stock));
}

std::string plugins_needed(std::span<const FilterStage> chain) {
  std::vector<std::string> names;
  for (const FilterStage& stage : chain) {
    if (stage.id < kFirstPlugin) continue;
    const FilterPtr filter = find_for(stage);
    std::string name = filter ? filter->name : fmt::format("{}", stage.id);
    if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
  }
  return fmt::format("{}", fmt::join(names, " and "));
}

}  // namespace codecfs::filters
