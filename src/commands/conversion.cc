#include "commands/conversion.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <span>
#include <utility>

#include "backends/api/names.h"
#include "backends/api/newer_format.h"
#include "base/utf8.h"
#include "commands/convert_file.h"
#include "commands/walk.h"
#include "commands/workers.h"
#include "model/json.h"
#include "model/numpy_type.h"

namespace codecfs::commands {
namespace {

constexpr size_t kChunksAtOnce = 1024;  // chunks

/// Whether it is the content of the variable that fails, and not the disk.
bool is_of_variable(int code) { return code == EOPNOTSUPP || is_unreadable(code); }

/// Whether a target that returns this has no form for what it was given.
bool means_no_form(int code) { return code == EINVAL || code == EOPNOTSUPP || code == ENAMETOOLONG; }

/// The name that an array at the root of a store gets in a group.
std::string name_of_root(const std::string& source) {
  const std::string_view path = std::string_view(source).substr(0, source.find_last_not_of('/') + 1);
  std::string name = std::filesystem::path(path).stem().string();
  return name.empty() || name.starts_with('.') ? "array" : name;
}

/// A fill value, or the attribute _FillValue, as a number.
std::optional<double> number_of_fill(const Json& value) {
  const Json& single = value.is_array() && value.size() == 1 ? value[0] : value;
  if (single.is_boolean()) return single.get<bool>();
  if (const auto number = rounded_number(single)) return number;
  return single.is_string() ? parse_numpy_special(single.get_ref<const std::string&>()) : std::nullopt;
}

/// Whether both are numbers, and different ones.
bool are_different_fills(const Json& one, const Json& other) {
  const std::optional<double> first = number_of_fill(one);
  const std::optional<double> second = number_of_fill(other);
  return first && second && *first != *second && !(std::isnan(*first) && std::isnan(*second));
}

Source& source_of(TreeFiles& tree) { return tree.filesystem().context().dataset.source(); }

bool is_metadata(std::string_view name) { return name.starts_with(".z") || name == "zarr.json"; }

}  // namespace

Result<Converted> Conversion::run() {
  Directory top = to_.root();
  // The root of an HDF5 file is a group.
  if (to_.consolidates() && !info_.nodes.empty() && info_.nodes.front().entry.kind == EntryKind::variable) {
    const std::string name = name_of_root(info_.source);
    CODECFS_ASSIGN(top, to_.make_directory(top, name));
    done_.warnings.push_back(fmt::format("the array at the root of {} became /{}", info_.source, name));
  }
  CODECFS_TRY(copy_directory(TreeFiles::root(), top, ""));
  CODECFS_TRY(copy_batch());
  CODECFS_TRY(restore_links());
  find_unlisted();
  if (omissions_.fails()) return std::unexpected(omissions_.error());
  warn_of_links();
  warn_of_rules();
  done_.chunks = chunks_;
  done_.bytes = bytes_;
  done_.present = present_;
  return std::move(done_);
}

std::unexpected<Error> Conversion::blame(Blame cause, Error error) {
  if (error.code != ECANCELED && error.code != EINTR && error.code != ENOMEM) blame_ = cause;
  return std::unexpected(std::move(error));
}

/// The name for the target of what has this file name in the source. In Zarr, the key of what HDF5 has is its file
/// name, as keys have no other bytes than UTF-8.
Result<std::string> Conversion::name_in_copy(TreeFiles::Ino from, const std::string& name, const std::string& path) {
  Source& source = source_of(from_);
  const bool is_zarr = source.chains_for_numcodecs_in(source.root().object);
  if (to_.is_hdf5()) {
    CODECFS_ASSIGN(auto restored, restored_name(from, name));
    if (!restored) return name;
    restored_[path] = *restored;
    return *std::move(restored);
  }
  std::string key = is_zarr ? unescape_name(name).value_or(name) : name;
  if (!is_utf8(key)) key = name;
  return to_.takes_file_names() ? escape_name(key) : key;
}

/// Copies a group or variable with everything below it, or adds it to the omissions.
Result<> Conversion::copy_member(TreeFiles::Ino from, const Directory& to, const std::string& name,
                                 const std::string& path) {
  const Result<TreeFiles::Ino> below = from_.find(from, name);
  CODECFS_ASSIGN(const std::string new_name, name_in_copy(from, name, path));
  std::optional<Directory> made;
  const Result<> copied = [&]() -> Result<> {
    if (!below) return blame(Blame::source, below.error());
    auto directory = to_.make_directory(to, new_name);
    if (!directory && means_no_form(directory.error().code)) return blame(Blame::target, directory.error());
    CODECFS_TRY(directory);
    made = *std::move(directory);
    return copy_directory(*below, *made, path);
  }();
  copied_.insert(path);
  if (copied && nczarr_ != nullptr) {
    Members& members = made_[path.substr(0, path.rfind('/'))];
    (nczarr_->variable(path) != nullptr ? members.arrays : members.groups).push_back(name);
  }
  if (copied) return {};
  const Blame blamed = std::exchange(blame_, Blame::conversion);
  if (blamed == Blame::conversion) return copied;
  // Of a group more would be left out than what has no form.
  const auto node = std::ranges::find(info_.nodes, path.substr(1), &InfoNode::path);
  const bool is_variable = node != info_.nodes.end() && node->entry.kind == EntryKind::variable;
  omissions_.add(path, copied.error(), blamed == Blame::target && is_variable);
  if (omissions_.fails()) chunks_waiting_.clear();
  return made ? to_.remove_directory(to, *made, new_name) : Result<>();
}

/// A new variable uses the dimensions that its group or one above has by then. So those that define one come first,
/// then other variables, then groups.
int Conversion::place_in_order(const std::string& path) {
  if (variables_.empty())
    for (const InfoNode& node : info_.nodes)
      if (node.variable && node.variable->facts) variables_.emplace("/" + node.path, node.variable->facts.get());
  const auto found = variables_.find(path);
  if (found == variables_.end()) return 2;
  const Variable& facts = *found->second;
  const bool defines = facts.grid.rank() == 1 && facts.dimensions && path.ends_with("/" + facts.dimensions->front());
  return defines ? 0 : 1;
}

Result<> Conversion::copy_directory(TreeFiles::Ino from, const Directory& to, const std::string& path) {
  CODECFS_TRY(restore_types(from, to));
  bool has_attributes = false;
  bool is_listed = true;               // not ended by an error of a file in it
  std::vector<TreeFiles::Item> later;  // groups and variables whose order matters
  const Result<> listed = from_.list(from, [&](const TreeFiles::Item& item) -> Result<> {
    const Result<> copied = [&]() -> Result<> {
      if (interrupted) return fail(ECANCELED, "interrupted");
      const std::string item_path = path + "/" + item.name;
      const bool is_member = item.type == S_IFDIR || item.type == S_IFLNK;
      if (is_member && omissions_.covers(item_path)) return {};
      if (item.type == S_IFLNK) return copy_link(from, to, item.name, item_path);
      if (item.type == S_IFDIR && as_netcdf_) {
        later.push_back(item);
        return {};
      }
      if (item.type == S_IFDIR) return copy_member(from, to, item.name, item_path);
      if (item.name == "_Filter" || item.name == "_Codecs") return {};
      if (nczarr_ != nullptr && item.name == ".zarray") return copy_nczarr_array(from, to, path);
      if (nczarr_ != nullptr && (item.name == ".zattrs" || item.name == ".zmetadata")) return {};
      if (item.name == ".zarray" && to_.consolidates()) {
        CODECFS_ASSIGN(has_attributes, copy_attributes_first(from, to, path));
      }
      if (item.name == ".zattrs" && has_attributes) return {};
      if (is_metadata(item.name)) return copy_metadata(from, to, item.name, item_path);
      if (omissions_.fails()) return {};
      const auto length = text_lengths_.find(path);
      if (length == text_lengths_.end())
        chunks_waiting_.push_back({from, to, item.name, item_path});
      else
        chunks_waiting_.push_back({from, to, item.name, item_path, &nczarr_->array(path), length->second});
      return chunks_waiting_.size() < kChunksAtOnce ? Result<>() : copy_batch();
    }();
    is_listed = copied.has_value();
    return copied;
  });
  if (!listed && is_listed) return blame(Blame::source, listed.error());
  if (listed) {
    std::ranges::stable_sort(later, {}, [&](const auto& item) { return place_in_order(path + "/" + item.name); });
    for (const TreeFiles::Item& item : later) {
      if (interrupted) return fail(ECANCELED, "interrupted");
      CODECFS_TRY(copy_member(from, to, item.name, path + "/" + item.name));
    }
  }
  if (listed && nczarr_ != nullptr && nczarr_->variable(path) == nullptr) return write_nczarr_group(to, path);
  return listed;
}

Result<> Conversion::read_text(TreeFiles::Ino file, std::string& text) {
  const Result<> read = from_.read(file, [&](Bytes content) -> Result<> {
    text.assign(reinterpret_cast<const char*>(content.data()), content.size());
    return {};
  });
  if (!read) return blame(Blame::source, read.error());
  return {};
}

/// Copies .zattrs before .zarray, so that the array is made with its attributes and dimensions: to set them later
/// looks at all dimensions of an HDF5 file. Returns whether it was copied: there, and without a _FillValue, which
/// would have to be compared with that of the array, unless the target keeps one that differs from the fill value.
Result<bool> Conversion::copy_attributes_first(TreeFiles::Ino from, const Directory& to, const std::string& path) {
  constexpr const char* kAttributes = ".zattrs";
  const Result<TreeFiles::Ino> file = from_.find(from, kAttributes);
  if (!file && file.error().code == ENOENT) return false;
  if (!file) return blame(Blame::source, file.error());
  std::string attributes;
  CODECFS_TRY(read_text(*file, attributes));
  if (attributes.find(kFillAttribute) != attributes.npos) {
    if (!to_.is_hdf5()) return false;
    const Result<TreeFiles::Ino> array = from_.find(from, ".zarray");
    if (!array) return blame(Blame::source, array.error());
    std::string text;
    CODECFS_TRY(read_text(*array, text));
    CODECFS_ASSIGN(const Json zattrs, parse_json(attributes));
    CODECFS_ASSIGN(const Json zarray, parse_json(text));
    if (!are_different_fills(member(zattrs, kFillAttribute), member(zarray, "fill_value"))) return false;
  }
  CODECFS_TRY(copy_metadata(from, to, kAttributes, path + "/" + kAttributes));
  return true;
}

Result<> Conversion::copy_metadata(TreeFiles::Ino from, const Directory& to, const std::string& name,
                                   const std::string& path) {
  if (name == ".zmetadata" && (to_.consolidates() || path != "/.zmetadata")) return {};
  const Result<TreeFiles::Ino> file = from_.find(from, name);
  if (!file) return blame(Blame::source, file.error());
  // zarr.json shows the reason in their place, which must not become an attribute.
  if (const Result<> checked = from_.check_attributes(from); !checked) return blame(Blame::source, checked.error());
  bool is_read = false;
  const Result<> copied = from_.read(*file, [&](Bytes content) -> Result<> {
    is_read = true;
    std::string shortened;
    if (omissions_.any()) {
      const std::string_view text(reinterpret_cast<const char*>(content.data()), content.size());
      const std::string directory = path.substr(0, path.size() - name.size());
      CODECFS_ASSIGN(shortened, without_omitted(text, name, directory));
      content = std::as_bytes(std::span(shortened));
    }
    return to_.write(to, name, content);
  });
  if (copied) return {};
  if (!is_read) {
    const bool has_no_form = copied.error().code == EOPNOTSUPP && name == "zarr.json";
    return blame(has_no_form ? Blame::target : Blame::source, copied.error());
  }
  if (means_no_form(copied.error().code) && keep_filters(from, path.substr(0, path.size() - name.size() - 1)))
    return copy_without_rule(from, to, name, path, copied.error());
  const bool is_for_filters = copied.error().reason.find("no filter") != std::string::npos;
  const Error error{copied.error().code, fmt::format("{}: {}{}", path, copied.error().reason,
                                                     is_for_filters ? "; -F gives the variable other filters" : "")};
  return means_no_form(error.code) ? blame(Blame::target, error) : std::unexpected(error);
}

/// From now on, the source shows a variable with its own filters; false if no rule gives it others.
bool Conversion::keep_filters(TreeFiles::Ino variable, const std::string& path) {
  fs::Filesystem& filesystem = from_.filesystem();
  fs::MountContext& context = filesystem.context();
  const Result<fs::Place> place = context.tree.nodes.at(variable);
  if (!place || place->node->kind != fs::NodeKind::variable || context.options.rules.empty()) return false;
  const Result<VariablePtr> facts = context.dataset.source().facts(place->node->object);
  if (!facts || !filesystem.rules().pipeline_for(path, **facts)) return false;
  if (context.tree.overlay.note_rule_applied(*place->node)) return false;
  filesystem.forms().forget(*place->node);
  return true;
}

/// Copies the metadata of a variable that the target has refused with the filters of its rule.
Result<> Conversion::copy_without_rule(TreeFiles::Ino from, const Directory& to, const std::string& name,
                                       const std::string& path, const Error& refusal) {
  CODECFS_TRY(copy_metadata(from, to, name, path));
  const std::string variable = path.substr(0, path.size() - name.size() - 1);
  const fs::MountRules& rules = from_.filesystem().rules();
  // Its format has a form for it, so it must not be left out as one that has none.
  if (rules.have_name_of(variable))
    return fail(EINVAL, "filter rule {}: {}: {}", rules.texts_for(variable), variable, refusal.reason);
  if (without_rule_++ == 0) first_without_rule_ = fmt::format("{}: {}", variable, refusal.reason);
  return {};
}

void Conversion::warn_of_rules() {
  if (without_rule_ == 0) return;
  done_.warnings.push_back(
      fmt::format("{} not given the filters of the rule for all variables: {}{}",
                  without_rule_ == 1 ? "1 variable is" : fmt::format("{} variables are", without_rule_),
                  without_rule_ == 1 ? "" : "the first is ", first_without_rule_));
}

/// A metadata file of `directory` ("/g/") without what it says about members that are left out.
Result<std::string> Conversion::without_omitted(std::string_view text, std::string_view name,
                                                const std::string& directory) const {
  CODECFS_ASSIGN(Json json, parse_json(text));
  const Json before = json;
  const bool is_v3 = name == "zarr.json";
  Json* members = &json;
  if (is_v3) {
    if (json.contains("attributes")) drop_omitted_links(json["attributes"], directory);
    members = json.contains("consolidated_metadata") ? &json["consolidated_metadata"] : nullptr;
  } else if (name == ".zattrs") {
    drop_omitted_links(json, directory);
  }
  if (members != nullptr && (is_v3 || name == ".zmetadata") && members->contains("metadata") &&
      (*members)["metadata"].is_object()) {
    members = &(*members)["metadata"];
    for (auto member = members->begin(); member != members->end();)
      member = omissions_.covers(directory + member.key()) ? members->erase(member) : std::next(member);
    for (auto&& [key, member] : members->items()) {
      const size_t end = key.rfind(".zattrs");
      if (is_v3 && member.contains("attributes"))
        drop_omitted_links(member["attributes"], directory + key + "/");
      else if (!is_v3 && end != key.npos)
        drop_omitted_links(member, directory + key.substr(0, end));
    }
  }
  return json == before ? std::string(text) : print_json(json, 4) + "\n";
}

Result<> Conversion::copy_batch() {
  CODECFS_TRY(in_parallel(
      chunks_waiting_.size(), [&](uint64_t i) { return copy_chunk(chunks_waiting_[i]); },
      std::max(from_.reads_at_once(), to_.files_at_once())));
  chunks_waiting_.clear();
  return {};
}

Result<> Conversion::copy_chunk(const Chunk& chunk) {
  CODECFS_ASSIGN(const TreeFiles::Ino file, from_.find(chunk.from, chunk.name));
  progress_.add(1);
  if (resumed_ && chunk.texts == nullptr) {
    CODECFS_ASSIGN(const uint64_t size, from_.size(file));
    CODECFS_ASSIGN(const bool is_done, to_.has(chunk.to, chunk.name, size));
    if (is_done) {
      ++present_;
      return {};
    }
  }
  const Result<> copied = [&]() -> Result<> {
    if (chunk.texts != nullptr) return copy_texts(chunk);
    CODECFS_TRY(from_.check_shard(file));  // its bytes are not looked at
    return from_.read(file, [&](Bytes content) -> Result<> {
      bytes_ += content.size();
      return to_.write(chunk.to, chunk.name, content);
    });
  }();
  if (!copied)
    return fail(copied.error().code, "{}: {}{}", chunk.path, copied.error().reason,
                is_of_variable(copied.error().code) ? "; --skip VAR leaves a variable out" : "");
  ++chunks_;
  return {};
}

/// A tree shows only members that it can open: those that it should show and did not.
void Conversion::find_unlisted() {
  if (interrupted) return;
  for (const InfoNode& node : info_.nodes) {
    const std::string path = "/" + node.path;
    const bool is_member = node.entry.kind == EntryKind::variable || node.entry.kind == EntryKind::group;
    if (node.path.empty() || !is_member || copied_.contains(path) || omissions_.covers(path)) continue;
    omissions_.add(path, Error{EIO, "it cannot be opened; the log of a mount has the reason"}, false);
  }
}

}  // namespace codecfs::commands
