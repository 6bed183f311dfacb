#pragma once
// Everything in a dataset, or in a folder of datasets. Thread-safe if the visitor is.

#include <functional>
#include <string>
#include <string_view>

#include "backends/api/source.h"
#include "base/result.h"

namespace codecfs::commands {

/// Called for each group, folder and variable, and for links and files of a folder; `path` is "" for the root, else
/// without a leading slash.
using Visit = std::function<Result<>(const std::string& path, const Entry& entry)>;
/// Called with its path for a group that cannot be listed, which was visited, and for a member that cannot be read,
/// which was not.
using VisitError = std::function<Result<>(const std::string& path, const Error& error)>;

/// Visits the root and everything below it, groups before their members, in the order of the source. Links are not
/// followed. EFBIG for groups that are nested too deep; the errors of the visitors.
Result<> walk(Source& source, const Visit& visit, const VisitError& on_error);
/// As walk(), from the object at `path` on. `list_members`: Source::overview(), for code that only describes; empty: by
/// the other functions of Source.
using ListMembers = std::function<Result<Members>(Source& source, ObjectId group)>;
Result<> walk(Source& source, const std::string& path, const Entry& start, const Visit& visit,
              const VisitError& on_error, const ListMembers& list_members = {});

/// The object at a path: names separated by slashes, with or without a leading one; "" and "/" are the root. Follows
/// links within the source. ENOENT, ENOTDIR, ELOOP.
Result<Entry> find_path(Source& source, const std::string& path);
/// As find_path(), for a path that a user wrote: if there is none, the reason has the name that was meant, perhaps.
/// Lists a group in that case.
Result<Entry> find_named(Source& source, const std::string& path);
/// `path` as walk() writes it.
std::string normal_path(std::string_view path);
/// Whether a path is `top` or below it. Both begin with a slash, or neither; "" is above all.
bool is_within(std::string_view path, std::string_view top);

}  // namespace codecfs::commands
