#include "commands/omissions.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "backends/api/external_link.h"
#include "commands/walk.h"

namespace codecfs::commands {
namespace {

Result<std::vector<LeftOutAttribute>> left_out_attributes(Source& source, const Entry& entry) {
  if (entry.kind == EntryKind::group) return source.left_out_attributes(entry.object);
  CODECFS_ASSIGN(const VariablePtr variable, source.variable(entry.object));
  if (variable->unreadable_attributes) return std::unexpected(*variable->unreadable_attributes);
  return variable->left_out_attributes;
}

}  // namespace

void Omissions::add(std::string path, Error error, bool is_unsupported) {
  add(Found{std::move(path), std::move(error), is_unsupported});
}

void Omissions::add(Found found) {
  if (!allows(found.is_unsupported)) ++failures_;
  found_.push_back(std::move(found));
}

void Omissions::add_found(const DatasetInfo& info, bool keeps_all) {
  const bool is_zarr = info.format.starts_with("Zarr");
  for (const InfoNode& node : info.nodes) {
    const std::string path = "/" + node.path;
    if (covers(path)) continue;
    // Of HDF5 this says that Zarr has no form for it; of Zarr, that it cannot be read here.
    const auto add_error = [&](const Error& error) {
      const bool is_unsupported = !is_zarr && error.code == EOPNOTSUPP;
      if (!is_unsupported || !keeps_all) add(path, error, is_unsupported);
    };
    if (node.error)
      add(path, *node.error, false);
    else if (node.variable && !node.variable->facts)  // damage of chunks is found when they are copied
      add_error(*node.variable->error);
    else if (node.variable && node.variable->facts && node.variable->facts->unreadable)
      add_error(*node.variable->facts->unreadable);
  }
}

Result<> Omissions::add_attributes(Source& source, const DatasetInfo& info) {
  std::set<std::string> skipped;  // that are no paths of objects
  for (const std::string& path : skip_)
    if (std::ranges::none_of(info.nodes, [&](const InfoNode& node) { return "/" + node.path == path; }))
      skipped.insert(path);
  for (const InfoNode& node : info.nodes) {
    const std::string path = "/" + node.path;
    const bool has_attributes = node.entry.kind == EntryKind::group || node.entry.kind == EntryKind::variable;
    if (!has_attributes || node.error || covers(path)) continue;
    const Result<std::vector<LeftOutAttribute>> left_out = left_out_attributes(source, node.entry);
    if (!left_out) {
      add(path, left_out.error(), false);
      continue;
    }
    for (const LeftOutAttribute& attribute : *left_out) {
      std::string name = fmt::format("{}@{}", path, attribute.name);
      const int code = attribute.error.code;
      if (skipped.erase(name) == 0)
        add(Found{std::move(name), attribute.error, code == EOPNOTSUPP || code == EFBIG, true});
    }
  }
  if (skipped.empty()) return {};
  return fail(EINVAL, "--skip {}: of attributes, only those that cannot be copied can be left out", *skipped.begin());
}

void Omissions::add_unreadable_sources(Source& source, const DatasetInfo& info, std::vector<std::string>& warnings) {
  for (const InfoNode& node : info.nodes) {
    const std::string path = "/" + node.path;
    if (!node.variable || !node.variable->facts || node.variable->facts->storage != Storage::virtual_sources ||
        covers(path))
      continue;
    const Result<std::vector<std::string>> missing = source.missing_sources(node.entry.object);
    if (!missing)
      add(path, missing.error(), false);
    else if (!missing->empty())
      warnings.push_back(fmt::format("{}: its source {}{} cannot be found: the copy has the fill value in its place",
                                     path, missing->front(),
                                     missing->size() == 1 ? "" : fmt::format(" and {} more", missing->size() - 1)));
  }
}

void Omissions::add_unequal_dimensions(const DatasetInfo& info) {
  struct First {
    uint64_t length;
    std::string path;
  };
  std::map<std::pair<std::string, std::string>, First> dimensions;  // by group and name
  for (const InfoNode& node : info.nodes) {
    const std::string path = "/" + node.path;
    if (!node.variable || !node.variable->facts || !node.variable->facts->dimensions || covers(path)) continue;
    const Variable& facts = *node.variable->facts;
    const std::string group = path.substr(0, path.rfind('/'));
    const OptionalNames names = named_dimensions(*facts.dimensions, facts.attributes);
    for (size_t d = 0; d < names.size() && d < facts.grid.rank(); ++d) {
      if (!names[d]) continue;
      const std::string& name = *names[d];
      const uint64_t length = facts.grid.shape()[d];
      const First& first = dimensions.try_emplace({group, name}, First{length, path}).first->second;
      if (first.length == length) continue;
      add(path,
          Error{EINVAL,
                fmt::format("its dimension \"{}\" has the length {}, but {} in {}: HDF5 has one length for each "
                            "dimension of a group",
                            name, length, first.length, first.path)},
          true);
      break;
    }
  }
}

void Omissions::warn_of_links(const DatasetInfo& info, std::vector<std::string>& warnings) const {
  if (!any()) return;
  std::map<std::string, const std::string*> targets;
  for (const InfoNode& node : info.nodes)
    if (node.entry.kind == EntryKind::symlink) targets.try_emplace("/" + node.path, &node.entry.target);
  const auto is_lost = [&](std::string path) {
    constexpr int kMaxLinks = 40;
    for (int links = 0; links < kMaxLinks; ++links) {
      auto link = targets.end();
      size_t end = 0;
      while (link == targets.end() && end < path.size()) {
        end = std::min(path.find('/', end + 1), path.size());
        link = targets.find(path.substr(0, end));
        if (covers(std::string_view(path).substr(0, end))) return true;
      }
      if (link == targets.end()) return false;
      if (link->second->starts_with(kExternalLink)) return false;
      const std::string group = path.substr(0, path.find_last_of('/', end - 1) + 1);
      const std::filesystem::path base = link->second->starts_with('/') ? "/" : group;
      path = "/" + normal_path((base / (*link->second + path.substr(end))).lexically_normal().string());
    }
    return false;
  };
  constexpr size_t kMaxNamed = 10;
  std::vector<std::string> lost;
  for (const auto& [path, target] : targets)
    if (!covers(path) && is_lost(path)) lost.push_back(fmt::format("{} -> {}", path, *target));
  if (lost.empty()) return;
  const size_t more = lost.size() - std::min(lost.size(), kMaxNamed);
  lost.resize(lost.size() - more);
  warnings.push_back(fmt::format("links to what is left out lead nowhere in the copy: {}{}", fmt::join(lost, ", "),
                                 more == 0 ? "" : fmt::format(" and {} more", more)));
}

bool Omissions::covers(std::string_view path) const {
  const auto is_above = [&](std::string_view top) { return is_within(path, top == "/" ? "" : top); };
  return std::ranges::any_of(skip_, is_above) ||
         std::ranges::any_of(found_, [&](const Found& found) { return !found.is_attribute && is_above(found.path); });
}

Error Omissions::error() const {
  const auto is_failure = [&](const Found& found) { return !allows(found.is_unsupported); };
  const auto with_path = [](const Found& found) {
    const std::string start = found.path + ": ";
    return found.error.reason.starts_with(start) ? found.error.reason : start + found.error.reason;
  };
  const Found& first = *std::ranges::find_if(found_, is_failure);
  // An error of the disk or the network may be gone at another attempt.
  Error error = first.error;
  for (const Found& found : found_)
    if (is_failure(found) && !found.is_unsupported) error.code = found.error.code;
  const bool has_unsupported =
      std::ranges::any_of(found_, [&](const Found& found) { return is_failure(found) && found.is_unsupported; });
  const char* const others = has_unsupported ? "; --skip-unsupported leaves out what the new dataset cannot hold" : "";
  if (failures_ == 1) {
    error.reason = fmt::format("{}; --skip {} leaves it out{}", with_path(first), first.path, others);
    return error;
  }
  for (const Found& found : found_)
    if (is_failure(found) && told_) told_({found.path, with_path(found), false});
  error.reason =
      fmt::format("{} variables, groups or attributes cannot be converted: {}, ...; --skip PATH leaves one out{}",
                  failures_, first.path, others);
  return error;
}

void Omissions::tell_allowed() const {
  if (!told_) return;
  for (const std::string& path : skip_) told_({path, path + ": --skip", true});
  for (const Found& found : found_) told_({found.path, fmt::format("{}: {}", found.path, found.error.reason), true});
}

}  // namespace codecfs::commands
