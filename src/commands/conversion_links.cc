// Links: symbolic ones in a directory of Zarr, and in HDF5 those of which there are notes (backends/api/link_notes.h).

#include <cerrno>
#include <iterator>
#include <utility>

#include "backends/api/external_link.h"
#include "backends/api/link_notes.h"
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
    done_.warnings.push_back(fmt::format("{}: the link to {} was left out: {}", path, target, made.error().reason));
    return {};
  }
  LinksMade& links = target.starts_with(kExternalLink) ? external_links_ : links_;
  if (links.count++ == 0) links.first = fmt::format("{} -> {}", path, target);
  return {};
}

/// Whether it is a link of which there is a note, from which an HDF5 file gets the link.
Result<bool> Conversion::note_link(TreeFiles::Ino from, const Directory& to, const std::string& name,
                                   const std::string& path) {
  if (!to_.is_hdf5()) return false;
  fs::MountContext& context = from_.filesystem().context();
  const Result<fs::Place> group = context.nodes.at(from);
  if (!group) return false;
  const ObjectId object = group->node->object;
  if (!link_notes_.contains(object)) {
    CODECFS_ASSIGN(const std::vector<Attribute> notes, context.dataset.source().link_notes(object));
    for (const Attribute& note : notes) link_notes_[object].try_emplace(note.name, *note.value);
  }
  const auto& notes = link_notes_[object];
  const auto note = notes.find(name);
  if (note == notes.end()) return false;
  if (const Json reason = member(note->second, "unsupported"); reason.is_string())
    omissions_.add(path, Error{EOPNOTSUPP, reason.get<std::string>()}, true);
  else
    noted_links_.push_back({to, name_in_copy(name), path, print_json(note->second)});
  return true;
}

/// Some links need others: netCDF has none that lead nowhere.
Result<> Conversion::restore_links() {
  if (omissions_.fails()) return {};
  std::vector<std::pair<NotedLink, Error>> refused;
  do {
    refused.clear();
    for (NotedLink& link : noted_links_) {
      if (interrupted) return fail(ECANCELED, "interrupted");
      const Result<> made = to_.restore_link(link.to, link.name, link.note);
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
  if (external_links_.count > 0)
    done_.warnings.push_back(
        fmt::format("{} to other files became symbolic links that lead nowhere", external_links_.text()));
}

}  // namespace codecfs::commands
