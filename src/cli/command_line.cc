#include "cli/command_line.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/closest_name.h"
#include "cli/mount.h"
#include "cli/mount_helper.h"
#include "cli/mount_options.h"
#include "cli/print.h"

namespace codecfs::cli {

using std::string_view_literals::operator""sv;

#define CODECFS_COMMAND(name) std::unique_ptr<Command> make_##name();
#include "cli/all.inc"
#undef CODECFS_COMMAND

namespace {

/// In the order of --help.
std::vector<std::unique_ptr<Command>> all_commands() {
  std::vector<std::unique_ptr<Command>> commands;
#define CODECFS_COMMAND(name) commands.push_back(make_##name());
#include "cli/all.inc"
#undef CODECFS_COMMAND
  return commands;
}

/// The command that an option requested before commands had names, or that other programs call so; empty if the word is
/// neither.
std::string_view name_of_option(std::string_view word) {
  constexpr std::pair<std::string_view, std::string_view> kOptions[] = {
      {"-u", "unmount"},        {"--unmount", "unmount"}, {"--check", "check"},
      {"--recover", "recover"}, {"--compact", "compact"}, {"ls", "info"}};
  for (const auto& [option, name] : kOptions)
    if (word == option) return name;
  return {};
}

/// Parses the words behind the name of a command. `program`: what precedes them, for messages.
Result<std::unique_ptr<Command>> parse_words(std::unique_ptr<Command> command, const std::string& program,
                                             const std::vector<const char*>& words, const std::string& more_help) {
  const CommandHelp help = command->help();
  ArgumentParser parser(program.c_str(), help.summary);
  command->declare(parser);
  bool wants_help = false;
  bool wants_version = false;
  const bool is_mount = *help.name == '\0';
  parser.add_flag("-h,--help", wants_help, {.group = "Information", .text = "print this and exit"});
  if (is_mount)
    parser.add_flag("-V,--version", wants_version,
                    {.group = "Information", .text = "print the versions of codecfs and its libraries, and exit"});
  // These take precedence over errors.
  const auto has = [&](const char* one, const char* other) {
    return std::ranges::any_of(words, [&](std::string_view word) { return word == one || word == other; });
  };
  if (has("-h", "--help")) return make_print(parser.help() + more_help + "\n" + help.details);
  if (is_mount && has("-V", "--version")) return make_print(version_text());
  std::vector<const char*> arguments{program.c_str()};
  arguments.insert(arguments.end(), words.begin(), words.end());
  if (const auto parsed = parser.parse(static_cast<int>(arguments.size()), arguments.data()); !parsed)
    return fail(parsed.error().code, "{} (see {} --help)", parsed.error().reason, program);
  CODECFS_TRY(command->check());
  return command;
}

std::string list_of_commands() {
  std::string text = "\nCommands, each with its own --help:\n";
  for (const auto& command : all_commands())
    text += fmt::format("  codecfs {:<19} {}\n", command->help().name, command->help().summary);
  return text;
}

}  // namespace

Result<std::unique_ptr<Command>> parse_command_line(int argc, const char* const* argv) {
  const std::string_view program = argc > 0 ? argv[0] : "codecfs";
  if (program.substr(program.rfind('/') + 1).starts_with("mount.")) return parse_mount_helper(argc, argv);
  std::vector<const char*> words(argv + std::min(argc, 1), argv + argc);
  // As many programs have it: help, help COMMAND, version.
  if (!words.empty() && words[0] == "help"sv) {
    words.erase(words.begin());
    words.push_back("--help");
  } else if (words.size() == 1 && words[0] == "version"sv) {
    words[0] = "--version";
  }
  if (!words.empty()) {
    // --check=SOURCE and -uMOUNTPOINT are two words.
    const std::string_view first = words[0];
    const size_t equals = first.find('=');
    std::string_view name = first;
    if (first.starts_with("--") && equals != first.npos) {
      name = name_of_option(first.substr(0, equals));
      if (!name.empty()) words.insert(words.begin() + 1, words[0] + equals + 1);
    } else if (first.starts_with("-u") && first.size() > 2) {
      name = name_of_option("-u");
      words.insert(words.begin() + 1, words[0] + 2);
    } else if (const std::string_view named = name_of_option(first); !named.empty()) {
      name = named;
    }
    for (auto& command : all_commands()) {
      if (name != command->help().name) continue;
      words.erase(words.begin());
      const std::string called = fmt::format("codecfs {}", name);
      return parse_words(std::move(command), called, words, "");
    }
  }
  auto mount = parse_words(std::make_unique<MountCommand>(), "codecfs", words, list_of_commands());
  // A misspelled command looks like a source that does not exist.
  if (!words.empty() && words[0][0] != '-' && !std::string_view(words[0]).contains('/') &&
      access(words[0], F_OK) != 0) {
    std::vector<std::string> names;
    for (const auto& command : all_commands()) names.emplace_back(command->help().name);
    const std::vector<std::string_view> views(names.begin(), names.end());
    if (const std::string_view name = closest_name(words[0], views); !name.empty())
      return fail(EINVAL, "{}: there is no such file or command; did you mean codecfs {}?", words[0], name);
  }
  return mount;
}

void hide_secrets(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const auto hide = [&](size_t from, size_t to) { std::fill(argv[i] + from, argv[i] + to, '*'); };
    if (word.starts_with("https://") || word.starts_with("http://")) {
      hide(std::min(word.find('?'), word.size() - 1) + 1, word.size());
      continue;
    }
    // In mount options: "\," is no end of a value.
    constexpr std::string_view kProgram = "credential_process=";
    constexpr std::string_view kUrl = "credential_url=";
    for (size_t begin = 0; begin < word.size();) {
      size_t end = begin;
      while (end < word.size() && word[end] != ',') end += word[end] == '\\' ? 2 : 1;
      end = std::min(end, word.size());
      const std::string_view option = word.substr(begin, end - begin);
      const size_t query = std::min(option.find('?'), option.size());
      if (option.contains(kProgram)) hide(begin + option.find(kProgram) + kProgram.size(), end);
      if (option.contains(kUrl) && query < option.size()) hide(begin + query + 1, end);
      begin = end + 1;
    }
  }
}

}  // namespace codecfs::cli
