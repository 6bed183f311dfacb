// Links of a file as notes (backends/api/link_notes.h), and links made from notes.

#include "backends/api/link_notes.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <string>

#include "backends/api/names.h"
#include "backends/hdf5/library/complex_type.h"
#include "backends/hdf5/library/hdf5_version.h"
#include "backends/hdf5/library/library_lock.h"
#include "backends/hdf5/library/text.h"
#include "backends/hdf5/metadata/type_notes.h"
#include "backends/hdf5/source/tree_write.h"
#include "model/json.h"

namespace codecfs::hdf5 {
namespace {

Result<Json> note_of(hid_t group, const Link& link, const std::string& shown) {
  switch (link.info.type) {
    case H5L_TYPE_HARD: return Json{{"hard", shown}};
    case H5L_TYPE_SOFT: {
      CODECFS_ASSIGN(std::string path, link_value(group, link));
      path.resize(std::min(path.find('\0'), path.size()));
      return soft_link_note(path);
    }
    case H5L_TYPE_EXTERNAL: {
      CODECFS_ASSIGN(const std::string value, link_value(group, link));
      unsigned flags = 0;
      const char* file = nullptr;
      const char* path = nullptr;
      if (H5Lunpack_elink_val(value.data(), value.size(), &flags, &file, &path) < 0)
        return fail_library(EIO, "external link \"{}\"", as_utf8(link.name));
      return external_link_note(file, path);
    }
    default:
      return Json{{"unsupported", fmt::format("it is a link of the class {}, which a program has defined",
                                              static_cast<int>(link.info.type))}};
  }
}

/// The note of a committed type; none of other members, and of a type that JSON cannot describe.
std::optional<Attribute> note_of_type(hid_t group, const Link& link) {
  ObjectInfo info;
  if (link.info.type != H5L_TYPE_HARD || !object_info_by_name(group, link.name.c_str(), info, H5P_DEFAULT) ||
      info.type != H5O_TYPE_NAMED_DATATYPE)
    return std::nullopt;
  const Handle type(H5Topen2(group, link.name.c_str(), H5P_DEFAULT));
  Json described = type ? describe_type(type.get()) : Json();
  if (described.is_null()) return std::nullopt;
  return Attribute{escape_name(netcdf_name(link.name)), Json{{kNotedType, std::move(described)}}};
}

/// Not to open the files of external links that a path passes.
herr_t refuse_file(const char*, const char*, const char*, const char*, unsigned*, hid_t, void*) { return -1; }

}  // namespace

Result<std::vector<Attribute>> ObjectTree::link_notes(ObjectId group) {
  CODECFS_ASSIGN(const Handle handle, open_group(group));
  CODECFS_ASSIGN(const std::vector<Link> links, links_of(handle.get()));
  std::vector<Attribute> notes;
  for (const Link& link : links) {
    (void)recorder_->object(nodes_[group].address);
    const auto entry = entry_of(group, handle.get(), link);
    if (!entry) continue;
    if (!*entry) {
      if (auto type = note_of_type(handle.get(), link)) notes.push_back(*std::move(type));
      continue;
    }
    const Entry& member = **entry;
    Json note = Json::object();
    if (member.kind == EntryKind::symlink) {
      CODECFS_ASSIGN(note, note_of(handle.get(), link, member.target));
      note["link"] = as_utf8(member.target);
    }
    note_escape(note, member.name);
    if (!note.empty()) notes.push_back({member.name, std::move(note)});
  }
  return notes;
}

Result<> TreeWriter::restore_link(ObjectId group, std::string_view name, std::string_view note) {
  CODECFS_ASSIGN(const Json json, parse_json(note));
  CODECFS_ASSIGN(const Handle parent, tree_.open_group(group));
  CODECFS_ASSIGN(const std::string link, tree_.new_link_name(group, name));
  CODECFS_TRY(file_.allow_change(note.size()));
  if (json.contains(kNotedType)) return commit_type(group, parent.get(), link, json[kNotedType]);
  return make_noted_link(group, parent.get(), link, json);
}

Result<> TreeWriter::make_noted_link(ObjectId group, hid_t parent, const std::string& link, const Json& note) {
  const Handle properties = link_properties(link);
  const auto made = [&](herr_t status) {
    return done(status < 0 ? Result<>(fail_library(EIO, "{}: making the link \"{}\"", tree_.path(group), as_utf8(link)))
                           : Result<>());
  };
  if (const auto path = texts_of_note(note, "soft"); path.size() == 1 && !path[0].empty()) {
    CODECFS_ASSIGN(const std::string resolved, soft_path(group, parent, path[0], note));
    return made(H5Lcreate_soft(resolved.c_str(), parent, link.c_str(), properties.get(), H5P_DEFAULT));
  }
  if (const auto place = texts_of_note(note, "external"); place.size() == 2 && !place[0].empty() && !place[1].empty())
    return made(
        H5Lcreate_external(place[0].c_str(), place[1].c_str(), parent, link.c_str(), properties.get(), H5P_DEFAULT));
  if (const auto target = texts_of_note(note, "hard"); target.size() == 1)
    return make_other_name(group, parent, link, target[0]);
  if (const auto target = texts_of_note(note, "symlink"); target.size() == 1) {
    CODECFS_ASSIGN(const std::string path, link_target(group, target[0]));
    if (netcdf_) CODECFS_TRY(check_netcdf_link(group, target[0], path));
    return made(H5Lcreate_soft(path.c_str(), parent, link.c_str(), properties.get(), H5P_DEFAULT));
  }
  return fail(EOPNOTSUPP, "what is noted of the link \"{}\" cannot be understood", as_utf8(link));
}

Result<> TreeWriter::commit_type(ObjectId group, hid_t parent, const std::string& link, const Json& described) {
  const Handle made = make_described(described, takes_native_complex(parent));
  if (!made) return fail(EOPNOTSUPP, "the type \"{}\" cannot be made from its description", as_utf8(link));
  ObjectInfo info;
  if (H5Lexists(parent, link.c_str(), H5P_DEFAULT) <= 0) {
    if (H5Tcommit2(parent, link.c_str(), made.get(), link_properties(link).get(), H5P_DEFAULT, H5P_DEFAULT) < 0)
      return done(Result<>(fail_library(EIO, "{}: committing the type \"{}\"", tree_.path(group), as_utf8(link))));
    tree_.links_changed();
  } else if (const Handle there(H5Topen2(parent, link.c_str(), H5P_DEFAULT));
             !there || H5Tequal(there.get(), made.get()) <= 0) {
    return fail(EEXIST, "{} has a member \"{}\"", tree_.path(group), as_utf8(link));
  }
  if (object_info_by_name(parent, link.c_str(), info, H5P_DEFAULT)) tree_.note_committed(info.address);
  return done(Result<>());
}

Handle ObjectTree::committed_like(hid_t type) const {
  for (const uint64_t address : committed_types_) {
    Handle committed(open_object(file_, address));
    if (committed && H5Iget_type(committed.get()) == H5I_DATATYPE && H5Tequal(committed.get(), type) > 0)
      return committed;
  }
  return Handle();
}

/// The path of a noted soft link: as HDF5 had it, or where that leads nowhere, as names of this file are others, the
/// same path by these.
Result<std::string> TreeWriter::soft_path(ObjectId group, hid_t parent, const std::string& path,
                                          const Json& note) const {
  const Handle access(H5Pcreate(H5P_LINK_ACCESS));
  H5Pset_elink_cb(access.get(), refuse_file, nullptr);
  ObjectInfo info;
  if (object_info_by_name(parent, path.c_str(), info, access.get())) return path;
  const Json shown = member(note, "link");
  if (!shown.is_string()) return path;
  Result<std::string> other = link_target(group, shown.get<std::string>());
  return other && object_info_by_name(parent, other->c_str(), info, access.get()) ? *std::move(other) : path;
}

Result<> TreeWriter::make_other_name(ObjectId group, hid_t parent, const std::string& link, const std::string& target) {
  CODECFS_ASSIGN(const std::string path, link_target(group, target));
  const Handle access(H5Pcreate(H5P_LINK_ACCESS));
  H5Pset_elink_cb(access.get(), refuse_file, nullptr);
  const hid_t from = path.starts_with('/') ? file_.file.get() : parent;
  ObjectInfo info;
  if (!object_info_by_name(from, path.c_str(), info, access.get()))
    return fail(ENOENT, "it is another name of {}, which is not there", target);
  const Handle object(open_object(file_.file.get(), info.address));
  if (!object) return fail_library(EIO, "{}", target);
  const Result<> made = H5Olink(object.get(), parent, link.c_str(), link_properties(link).get(), H5P_DEFAULT) < 0
                            ? Result<>(fail_library(EIO, "{}: another name of {}", as_utf8(link), target))
                            : Result<>();
  tree_.links_changed();
  return done(made);
}

}  // namespace codecfs::hdf5
