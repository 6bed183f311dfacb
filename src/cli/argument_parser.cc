#include "cli/argument_parser.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "base/closest_name.h"

namespace codecfs::cli {
/// An argument as --help shows it.
struct ShownArgument {
  std::string names;
  ArgumentHelp help;
  bool has_value = true;
  bool repeats = false;

  [[nodiscard]] bool is_option() const { return names.starts_with('-'); }
};

namespace {

constexpr size_t kNamesWidth = 30;

std::string usage_of(const ShownArgument& argument) {
  const std::string name = argument.names + (argument.repeats ? "..." : "");
  return argument.help.required ? " " + name : " [" + name + "]";
}

std::string line_of(const ShownArgument& argument) {
  std::string line = "  " + argument.names;
  if (argument.has_value && *argument.help.value) line += fmt::format(" {}", argument.help.value);
  if (argument.help.required) line += " REQUIRED";
  if (argument.repeats && !argument.is_option()) line += " ...";
  if (line.size() >= kNamesWidth) line += "\n" + std::string(kNamesWidth, ' ');
  return fmt::format("{:<{}}{}\n", line, kNamesWidth, argument.help.text);
}

}  // namespace

// Prints --help itself: the layout of CLI11's differs from version to version, and later ones break lines anew.
struct ArgumentParser::Parser : CLI::App {
  using CLI::App::App;

  void add(const char* names, const ArgumentHelp& help, bool has_value, bool repeats) {
    arguments.push_back({names, help, has_value, repeats});
  }

  std::vector<ShownArgument> arguments;
};

ArgumentParser::ArgumentParser(const char* program, const char* description)
    : parser_(std::make_unique<Parser>(description, program)) {
  parser_->set_help_flag();
}

ArgumentParser::~ArgumentParser() = default;

void ArgumentParser::add_value(const char* name, std::string& value, const ArgumentHelp& help) {
  parser_->add_option(name, value)->type_name(help.value)->required(help.required);
  parser_->add(name, help, true, false);
}

void ArgumentParser::add_values(const char* name, std::vector<std::string>& values, const ArgumentHelp& help) {
  parser_->add_option(name, values)
      ->type_name(help.value)
      ->expected(1, name[0] == '-' ? 1 : 1 << 20)
      ->allow_extra_args(name[0] != '-')
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->required(help.required);
  parser_->add(name, help, true, true);
}

void ArgumentParser::add_flag(const char* name, bool& value, const ArgumentHelp& help) {
  parser_->add_flag(name, value);
  parser_->add(name, help, false, false);
}

Result<> ArgumentParser::parse(int argc, const char* const* argv) {
  try {
    parser_->parse(argc, argv);
  } catch (const CLI::ExtrasError& error) {
    std::vector<std::string_view> names;
    for (const ShownArgument& argument : parser_->arguments) {
      if (!argument.is_option()) continue;
      for (std::string_view rest = argument.names; !rest.empty();) {
        const size_t comma = std::min(rest.find(','), rest.size());
        names.push_back(rest.substr(0, comma));
        rest.remove_prefix(std::min(comma + 1, rest.size()));
      }
    }
    // "The following argument was not expected: --jsn"
    const std::string_view text = error.what();
    const std::string_view word = text.substr(text.rfind(' ') + 1);
    return fail(EINVAL, "{}{}", text, did_you_mean(word.substr(0, word.find('=')), names));
  } catch (const CLI::Error& error) {
    return fail(EINVAL, "{}", error.what());
  }
  return {};
}

std::string ArgumentParser::help() const {
  std::string usage = fmt::format("{}\nUsage: {}", parser_->get_description(), parser_->get_name());
  std::string positionals;
  std::vector<std::pair<std::string_view, std::string>> groups;
  for (const ShownArgument& argument : parser_->arguments) {
    if (!argument.is_option()) {
      positionals += line_of(argument);
      continue;
    }
    auto group = std::ranges::find(groups, argument.help.group, &std::pair<std::string_view, std::string>::first);
    if (group == groups.end()) group = groups.insert(group, {argument.help.group, ""});
    group->second += line_of(argument);
  }
  if (!groups.empty()) usage += " [OPTIONS]";
  for (const ShownArgument& argument : parser_->arguments)
    if (!argument.is_option()) usage += usage_of(argument);
  usage += "\n";
  if (!positionals.empty()) usage += "\nPositionals:\n" + positionals;
  for (const auto& [name, lines] : groups) usage += fmt::format("\n{}:\n{}\n", name, lines);
  return usage;
}

}  // namespace codecfs::cli
