// Links: symbolic ones in a directory of Zarr, and in HDF5 those of which there are notes (backends/api/link_notes.h).

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <ranges>
#include <utility>

#include "backends/api/external_link.h"
#include "backends/api/link_notes.h"
#include "backends/api/names.h"
#include "base/utf8.h"
#include "commands/conversion.h"
#include "commands/workers.h"
#include "model/json.h"

namespace codecfs::commands {
namespace {

/// Whether HDF5 has no form for a link, or its target is not there.
bool means_no_link(int code) { return code == EINVAL || code == EOPNOTSUPP || code == ENAMETOOLONG || code == ENOENT; }

}  // namespace

std::string Conversion::LinksMade::text() const {
  return count == 1 ? "the link " + first : fmt::format("{} links (the first is {})", count, first);
}

/// Removes the notes of links that are left out from the attributes of `directory` ("/g/").
void Conversion::drop_omitted_links(Json& attributes, const std::string& directory) const {
  if (!attributes.is_object() || !attributes.contains(kStoredLinks)) return;
  Json links = parse_stored_links(attributes[kStoredLinks]);
  for (auto link = links.begin(); link != links.end();)
    link = omissions_.covers(directory + link.key()) ? links.erase(link) : std::next(link);
  if (links.empty())
    attributes.erase(kStoredLinks);
  else
    attributes[kStoredLinks] = print_json(links);
}

Result<> Conversion::copy_link(TreeFiles::Ino from, const Directory& to, const std::string& name,
                               const std::string& path) {
  CODECFS_ASSIGN(const bool is_noted, note_link(from, to, name, path));
  if (is_noted) return {};
  CODECFS_ASSIGN(const TreeFiles::Ino link, from_.find(from, name));
  CODECFS_ASSIGN(const std::string target, from_.link_target(link));
  if (const Result<> made = to_.make_link(to, name, target); !made) {
    if (!means_no_link(made.error().code) && made.error().code != EPERM) return made;
    if (links_left_out_.count++ == 0) links_left_out_.first = fmt::format("{} -> {}", path, target);
    return {};
  }
  LinksMade& links = target.starts_with(kExternalLink) ? external_links_ : links_;
  if (links.count++ == 0) links.first = fmt::format("{} -> {}", path, target);
  return {};
}

/// What the source notes of the links and names in a group, to make an HDF5 file from.
Result<const Conversion::Notes*> Conversion::notes_of(TreeFiles::Ino group) {
  static const Notes kNone;
  fs::MountContext& context = from_.filesystem().context();
  const Result<fs::Place> place = context.tree.nodes.at(group);
  if (!place) return &kNone;
  const ObjectId object = place->node->object;
  const auto known = notes_.find(object);
  if (known != notes_.end()) return &known->second;
  CODECFS_ASSIGN(const std::vector<Attribute> noted, context.dataset.source().link_notes(object));
  Notes& notes = notes_[object];
  for (const Attribute& note : noted) notes.try_emplace(note.name, note.value);
  return &notes;
}

/// The file name of the name that a member had in HDF5, if it is noted that Zarr has its escaped form. None where
/// another member has it by now, or the new file could not have it: programs of netCDF need names in UTF-8.
Result<std::optional<std::string>> Conversion::restored_name(TreeFiles::Ino from, const std::string& name) {
  if (name.find('%') == name.npos) return std::nullopt;
  CODECFS_ASSIGN(const Notes* const notes, notes_of(from));
  for (std::string now = name;;) {
    const auto note = notes->find(now);
    if (note == notes->end() || !is_escape_noted(note->second)) return std::nullopt;
    std::string before = name_before_copy(now);
    const auto restored = unescape_name(before);
    const bool is_fit = restored && !restored->empty() && *restored != "." &&
                        restored->find_first_of(std::string_view("/\0", 2)) == restored->npos &&
                        (!as_netcdf_ || is_utf8(*restored));
    if (before == now || !is_fit) return std::nullopt;
    // One that has this name may get back another itself.
    const Result<TreeFiles::Ino> other = from_.find(from, before);
    if (!other && other.error().code == ENOENT) return name_before_copy(name);
    now = std::move(before);
  }
}

/// A path from `group` ("/g") by the names of the copy: itself if these are the same. `is_of_keys`: it has keys of
/// Zarr, else file names.
std::string Conversion::path_in_copy(const std::string& group, const std::string& text, bool is_of_keys) const {
  std::vector<std::string> names;  // file names in the source
  bool is_same = true;
  const auto add = [&](std::string_view path, bool has_keys) {
    for (const auto part : std::views::split(path, '/')) {
      const std::string_view key(part.begin(), part.end());
      if (key.empty() || key == ".") continue;
      if (key == ".." && names.empty()) return false;
      if (key == "..") {
        names.pop_back();
        continue;
      }
      names.push_back(has_keys ? escape_name(key) : std::string(key));
      is_same = is_same && names.back() == key;
    }
    return true;
  };
  if ((!text.starts_with('/') && !add(group, false)) || !add(text, is_of_keys)) return text;
  std::string at;
  std::string path;
  for (const std::string& name : names) {
    at += "/" + name;
    const auto restored = restored_.find(at);
    is_same = is_same && restored == restored_.end();
    path += "/" + (restored == restored_.end() ? name : restored->second);
  }
  return is_same ? text : path.empty() ? "/" : path;
}

/// The note of the link at `path` with paths by the file names of the copy.
Json Conversion::note_for_copy(Json note, const std::string& path) const {
  const std::string group = path.substr(0, path.rfind('/'));
  for (const char* const key : {"hard", "symlink", "link"}) {
    const Json text = member(note, key);
    const bool is_path = text.is_string() && (key != std::string_view("link") || note.contains("soft"));
    if (is_path) note[key] = path_in_copy(group, text.get<std::string>(), key != std::string_view("symlink"));
  }
  return note;
}

/// Makes the committed types that are noted in a group, before variables that have them. A type that cannot be made is
/// only a name less.
Result<> Conversion::restore_types(TreeFiles::Ino from, const Directory& to) {
  if (!to_.is_hdf5()) return {};
  fs::MountContext& context = from_.filesystem().context();
  const Result<fs::Place> place = context.tree.nodes.at(from);
  if (!place || place->node->kind != fs::NodeKind::group) return {};
  const auto attributes = context.dataset.source().group_attributes(place->node->object);
  if (!attributes) return {};  // an error of its own
  const auto links = std::ranges::find(*attributes, kStoredLinks, &Attribute::name);
  if (links == attributes->end()) return {};
  const Json notes = parse_stored_links(links->value);
  for (const auto& [key, note] : notes.items()) {
    if (!note.contains(kNotedType)) continue;
    const auto member = from_.find(from, escape_name(key));
    if (member || member.error().code != ENOENT) continue;              // it has the name by now, or may have it
    const Result<> made = to_.restore_link(to, key, print_json(note));  // a file name of the HDF5 file
    if (!made && !means_no_link(made.error().code)) return made;
  }
  return {};
}

/// Whether it is a link of which there is a note, from which an HDF5 file gets the link.
Result<bool> Conversion::note_link(TreeFiles::Ino from, const Directory& to, const std::string& name,
                                   const std::string& path) {
  if (!to_.is_hdf5()) return false;
  CODECFS_ASSIGN(const Notes* const notes, notes_of(from));
  const auto note = notes->find(name);
  if (note == notes->end() || !is_of_link(note->second)) return false;
  if (const Json reason = member(note->second, "unsupported"); reason.is_string()) {
    omissions_.add(path, Error{EOPNOTSUPP, reason.get<std::string>()}, true);
    return true;
  }
  CODECFS_ASSIGN(std::string new_name, name_in_copy(from, name, path));
  noted_links_.push_back({to, std::move(new_name), path, note->second});
  return true;
}

/// Some links need others: netCDF has none that lead nowhere. What the others may lead to is made first, by its further
/// names.
Result<> Conversion::restore_links() {
  if (omissions_.fails()) return {};
  std::ranges::stable_partition(noted_links_, [](const NotedLink& link) { return link.note->contains("hard"); });
  std::vector<std::pair<NotedLink, Error>> refused;
  do {
    refused.clear();
    for (NotedLink& link : noted_links_) {
      if (interrupted) return fail(ECANCELED, "interrupted");
      const Result<> made = to_.restore_link(link.to, link.name, print_json(note_for_copy(*link.note, link.path)));
      if (made) continue;
      const Error& error = made.error();
      if (!means_no_link(error.code)) return fail(error.code, "{}: {}", link.path, error.reason);
      refused.emplace_back(std::move(link), error);
    }
    if (refused.size() == noted_links_.size()) break;
    noted_links_.clear();
    for (auto& [link, error] : refused) noted_links_.push_back(link);
  } while (!noted_links_.empty());
  for (const auto& [link, error] : refused) omissions_.add(link.path, Error{EOPNOTSUPP, error.reason}, true);
  return {};
}

/// HDF5's links are part of the file; Zarr has none.
void Conversion::warn_of_links() {
  if (links_.count > 0)
    done_.warnings.push_back(fmt::format(
        "{} became symbolic links, which Zarr does not know: readers see what they lead to once more, and object "
        "stores do not keep them",
        links_.text()));
  if (links_left_out_.count > 0)
    done_.warnings.push_back(fmt::format("{}: readers do not see {}, as only directories have links{}",
                                         links_left_out_.text(), links_left_out_.count == 1 ? "it" : "them",
                                         nczarr_ == nullptr ? "; a conversion back to HDF5 makes links again" : ""));
  if (external_links_.count > 0)
    done_.warnings.push_back(
        fmt::format("{} to other files became symbolic links that lead nowhere", external_links_.text()));
}

}  // namespace codecfs::commands
