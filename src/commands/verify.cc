#include "commands/verify.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "backends/api/newer_format.h"
#include "base/human.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/progress_reporter.h"
#include "base/terminal_text.h"
#include "commands/dataset_info.h"
#include "commands/grid_regions.h"
#include "commands/walk.h"
#include "commands/workers.h"
#include "model/json.h"

namespace codecfs::commands {
namespace {

constexpr size_t kVerified = 4096;  // chunks

class Check {
 public:
  Check(Source& source, size_t places_in_memory) : source_(source), places_(places_in_memory) {}

  Result<Verification> run() {
    CODECFS_ASSIGN(DatasetInfo info, read_info(source_, ""));
    ProgressReporter progress("verifying", ProgressReporter::Unit::bytes);
    uint64_t total = 0;
    for (const InfoNode& node : info.nodes)
      if (node.variable) total += node.variable->stored_bytes;
    progress.expect(total);
    // Places in different files of a folder cannot be compared.
    is_one_file_ = S_ISREG(source_.status().st_mode);
    file_bytes_ = static_cast<uint64_t>(source_.status().st_size);
    nodes_ = info.nodes;
    for (const InfoNode& node : nodes_) {
      check_metadata(node);
      if (node.variable && node.variable->facts) CODECFS_TRY(check_variable(node, progress));
    }
    CODECFS_TRY(read_batch(progress));
    check_places();
    return std::move(found_);
  }

 private:
  struct Task {
    const InfoNode* node;
    uint64_t chunk;
  };

  void add(Damage damage) {
    const LockGuard lock(mutex_);
    ++found_.damages;
    found_.lost_bytes += damage.bytes;
    if (found_.damaged.size() < Verification::kMaxListed) found_.damaged.push_back(std::move(damage));
  }

  void add_whole(const InfoNode& node, const Error& error, uint64_t bytes) {
    Damage damage{
        .path = node.path, .chunk = {}, .region = {}, .bytes = bytes, .reason = short_reason(node, error.reason)};
    if (error.code == kNewerFormat)
      found_.unchecked.push_back(std::move(damage));
    else
      add(std::move(damage));
  }

  void check_metadata(const InfoNode& node) {
    if (node.error) return add_whole(node, *node.error, 0);
    if (node.entry.kind == EntryKind::group) {
      ++found_.groups;
      if (const auto left_out = source_.left_out_attributes(node.entry.object); !left_out)
        add_whole(node, left_out.error(), 0);
      else
        add_left_out(node, *left_out);
    }
    if (node.entry.kind != EntryKind::variable) return;
    ++found_.variables;
    if (!node.variable->facts) return add_whole(node, *node.variable->error, 0);
    const Result<VariablePtr> described = source_.variable(node.entry.object);
    if (!described)
      add_whole(node, described.error(), 0);
    else if ((*described)->unreadable_attributes)
      add_whole(node, *(*described)->unreadable_attributes, 0);
    else
      add_left_out(node, (*described)->left_out_attributes);
  }

  /// Single attributes that cannot be read.
  void add_left_out(const InfoNode& node, const std::vector<LeftOutAttribute>& left_out) {
    for (const auto& [name, error] : left_out) {
      if (error.code == EOPNOTSUPP) continue;  // whole, but without a form in Zarr
      const std::string reason = fmt::format("attribute \"{}\": {}", name, error.reason);
      if (error.code == EFBIG)
        found_.unchecked.push_back({.path = node.path, .chunk = {}, .region = {}, .bytes = 0, .reason = reason});
      else
        add_whole(node, Error{error.code, reason}, 0);
    }
  }

  /// The chunks of a variable become tasks.
  Result<> check_variable(const InfoNode& node, ProgressReporter& progress) {
    const VariableInfo& info = *node.variable;
    const Variable& facts = *info.facts;
    // That codecfs does not read it, which is no damage: EFBIG is -o max_chunk=.
    const bool is_unsupported =
        facts.unreadable && (facts.unreadable->code == EOPNOTSUPP || facts.unreadable->code == EFBIG);
    if (is_unsupported || !info.missing.empty()) {
      const auto stored = source_.stored_chunks(node.entry.object, 0, 1);
      if (stored && stored->empty()) return {};  // all readers find the fill value
    }
    if (!info.missing.empty() || is_unsupported) {
      found_.unchecked.push_back(
          {.path = node.path,
           .chunk = {},
           .region = {},
           .bytes = info.decoded_bytes,
           .reason = short_reason(node, info.missing.empty() ? facts.unreadable->reason : info.missing[0].reason)});
      progress.add(info.stored_bytes);
      return {};
    }
    if (facts.unreadable) {
      add_whole(node, *facts.unreadable, info.decoded_bytes);
      progress.add(info.stored_bytes);
      return {};
    }
    if (facts.storage == Storage::virtual_sources) check_sources(node);
    uint64_t listed = 0;  // decoded bytes
    for (uint64_t from = 0;;) {
      const auto numbers = source_.stored_chunks(node.entry.object, from, kVerified);
      if (!numbers) {
        // The rest cannot be found.
        add_whole(node, numbers.error(), info.decoded_bytes - std::min(listed, info.decoded_bytes));
        return {};
      }
      if (numbers->empty()) return {};
      from = numbers->back() + 1;
      for (const uint64_t number : *numbers) tasks_.push_back({&node, number});
      listed += numbers->size() * facts.chunk_bytes.value_or(0);
      if (tasks_.size() >= kVerified) CODECFS_TRY(read_batch(progress));
    }
  }

  /// Where a source of a virtual dataset is missing, reading gives no error.
  void check_sources(const InfoNode& node) {
    const Result<std::vector<std::string>> missing = source_.missing_sources(node.entry.object);
    if (!missing) return add_whole(node, missing.error(), 0);
    if (missing->empty()) return;
    const std::string others = missing->size() == 1 ? "" : fmt::format(" and {} more", missing->size() - 1);
    found_.unchecked.push_back({.path = node.path,
                                .chunk = {},
                                .region = {},
                                .bytes = 0,
                                .reason = fmt::format("its source {}{} cannot be found: readers find the fill value",
                                                      missing->front(), others)});
  }

  Result<> read_batch(ProgressReporter& progress) {
    std::vector<ChunkToRead> chunks;
    chunks.reserve(tasks_.size());
    for (const auto& task : tasks_) chunks.push_back({task.node->entry.object, task.chunk});
    CODECFS_TRY(read_in_parallel(source_, chunks, [&](uint64_t number) {
      read_chunk(*tasks_[number].node, tasks_[number].chunk, progress);
      return Result<>();
    }));
    tasks_.clear();
    return {};
  }

  void read_chunk(const InfoNode& node, uint64_t number, ProgressReporter& progress) {
    const Result<ChunkInfo> place = source_.locate(node.entry.object, number);
    const Result<DecodedChunk> chunk = source_.fetch_chunk(node.entry.object, number);
    if (place) {
      progress.add(place->stored_size);
      // In a shard, offsets are relative to it.
      const Variable& facts = *node.variable->facts;
      const bool has_place = place->stored && place->offset && facts.storage == Storage::chunked && !facts.shards;
      if (has_place && is_one_file_) {
        const LockGuard lock(mutex_);
        add_place({*place->offset, place->stored_size, static_cast<uint64_t>(&node - nodes_.data()), number});
      }
    }
    if (chunk && place) {
      const LockGuard lock(mutex_);
      ++found_.chunks;
      found_.stored_bytes += place->stored_size;
      if (place->filter_mask != 0) ++found_.masked_chunks;
      found_.decoded_bytes += chunk->bytes.size();
      return;
    }
    const Error& error = chunk ? place.error() : chunk.error();
    if (error.code == ENOENT) return;  // removed meanwhile
    add(damage_of(node, number, error.reason));
  }

  /// Without the place, which the backends put in front of their messages, each in its own way.
  static std::string short_reason(const InfoNode& node, std::string_view reason,
                                  std::optional<uint64_t> chunk = std::nullopt) {
    const auto drop = [&](const std::string& place) {
      if (!reason.starts_with(place + ": ")) return false;
      reason.remove_prefix(place.size() + 2);
      return true;
    };
    if (!drop(node.path)) drop("/" + node.path);
    if (!chunk) return std::string(reason);
    const Variable& facts = *node.variable->facts;
    const std::string folder = node.path.empty() ? "" : node.path + "/";
    for (const std::string& name :
         {"chunk " + facts.grid.name_of(*chunk), folder + facts.grid.name_of(*chunk),
          folder + facts.grid.name_of(*chunk, '/'), folder + facts.chunk_keys.name_of(facts.grid, *chunk)})
      if (drop(name)) break;
    return std::string(reason);
  }

  static Damage damage_of(const InfoNode& node, uint64_t number, const std::string& reason) {
    const Variable& facts = *node.variable->facts;
    const Region region = region_of_chunk(facts.grid, number);
    return {.path = node.path,
            .chunk = facts.grid.name_of(number),
            .region = region.text(),
            .bytes = region.elements() * facts.type.size,
            .reason = short_reason(node, reason, number)};
  }

  void add_place(const StoredPlace& place) {
    if (compares_places_) {
      const Result<> added = places_.add(place);
      if (added) return;
      log::warning("the places of further chunks are not compared: {}", added.error().reason);
      compares_places_ = false;
    }
    ++found_.not_compared;
  }

  /// Stored chunks must lie in the file and not overlap.
  void check_places() {
    std::optional<StoredPlace> last;  // that ends last
    const Result<> visited = places_.visit_sorted([&](const StoredPlace& place) {
      if (last && place.offset < last->offset + last->size) {
        const InfoNode& other = nodes_[last->variable];
        add(damage_of(nodes_[place.variable], place.chunk,
                      fmt::format("its place in the file overlaps that of chunk {} of /{}",
                                  other.variable->facts->grid.name_of(last->chunk), other.path)));
      }
      if (!last || place.offset + place.size > last->offset + last->size) last = place;
    });
    if (visited) return;
    log::warning("the places of chunks are not compared: {}", visited.error().reason);
    found_.not_compared = found_.chunks;
  }

  Source& source_;
  std::span<const InfoNode> nodes_;
  bool is_one_file_ = false;
  uint64_t file_bytes_ = 0;
  std::vector<Task> tasks_;
  Mutex mutex_;  // of what follows, while a batch is read
  StoredPlaces places_;
  bool compares_places_ = true;  // until one could not be kept
  Verification found_;
};

Json damage_json(const Damage& damage) {
  Json json = {{"path", "/" + damage.path}};
  if (!damage.chunk.empty()) {
    json["chunk"] = damage.chunk;
    json["region"] = damage.region;
  }
  json["bytes"] = damage.bytes;
  json["reason"] = damage.reason;
  return json;
}

std::string damage_line(const Damage& damage) {
  std::string line = "  /" + damage.path;
  if (!damage.chunk.empty()) line += fmt::format(", chunk {} {}", damage.chunk, damage.region);
  line += ": " + damage.reason;
  return printable(line) + "\n";
}

}  // namespace

Result<Verification> verify(Source& source, size_t places_in_memory) { return Check(source, places_in_memory).run(); }

std::string verification_text(const Verification& found, const std::string& source) {
  std::string text = fmt::format("{}: read {} of {}: {} stored, {} decoded\n", printable(source),
                                 counted(found.chunks, "chunk"), counted(found.variables, "variable"),
                                 human_bytes(found.stored_bytes), human_bytes(found.decoded_bytes));
  if (!found.unchecked.empty()) {
    text += fmt::format("not checked: {}\n", counted(found.unchecked.size(), "place"));
    for (const Damage& damage : found.unchecked) text += damage_line(damage);
  }
  if (found.masked_chunks > 0)
    text += fmt::format("stored without some of their filters: {}\n", counted(found.masked_chunks, "chunk"));
  if (found.not_compared > 0)
    text += fmt::format("not compared with the places of the others: {}\n", counted(found.not_compared, "chunk"));
  if (found.damages == 0) return text + (found.unchecked.empty() ? "no damage\n" : "no damage in the rest\n");
  text += fmt::format("DAMAGED: {}, {} of data cannot be read:\n", counted(found.damages, "place"),
                      human_bytes(found.lost_bytes));
  for (const Damage& damage : found.damaged) text += damage_line(damage);
  if (found.damages > found.damaged.size())
    text += fmt::format("  and {} more\n", human_count(found.damages - found.damaged.size()));
  return text;
}

Json verification_json(const Verification& found, const std::string& source) {
  Json json = {{"source", source},
               {"groups", found.groups},
               {"variables", found.variables},
               {"chunks", found.chunks},
               {"stored_bytes", found.stored_bytes},
               {"decoded_bytes", found.decoded_bytes},
               {"masked_chunks", found.masked_chunks},
               {"not_compared", found.not_compared},
               {"damages", found.damages},
               {"lost_bytes", found.lost_bytes}};
  json["damaged"] = Json::array();
  for (const Damage& damage : found.damaged) json["damaged"].push_back(damage_json(damage));
  json["unchecked"] = Json::array();
  for (const Damage& damage : found.unchecked) json["unchecked"].push_back(damage_json(damage));
  return json;
}

}  // namespace codecfs::commands
