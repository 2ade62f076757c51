#include "cli/flag_help.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/display_width.h"
#include "base/terminal.h"
#include "base/text.h"

namespace headroom::cli {
namespace {

constexpr int kLeastWidth = 40, kWidth = 80;
// Where the help of a flag begins, of 80 columns; of fewer the same part of them.
constexpr int kFlagColumn = 28;

std::string spelled(const Flag& flag) {
  std::string text =
      flag.short_name != 0 ? fmt::format("-{}, --{}", flag.short_name, flag.name) : "--" + flag.name;
  if (flag.kind != FlagKind::toggle) text += " " + (flag.value_name.empty() ? "VALUE" : flag.value_name);
  return text;
}

std::string spaces(int count) { return std::string(static_cast<std::size_t>(count), ' '); }

// Wraps at words; the first line begins at the column `indent`, and the others with as many spaces.
std::string wrap_help(std::string_view text, int indent, int width) {
  std::string result;
  int column = indent;
  for (const std::string_view word : split_words(text)) {
    if (column + display_width(word) + 1 > width && column > indent) {
      result += "\n" + spaces(indent);
      column = indent;
    } else if (!result.empty()) {
      result += ' ';
      ++column;
    }
    result += word;
    column += display_width(word);
  }
  return result;
}

// Split at spaces, but not at those within quotes: there a line may not be broken for the shell.
std::vector<std::string> shell_words_of(std::string_view command) {
  std::vector<std::string> words(1);
  char quote = 0;
  for (const char c : command) {
    if (c == ' ' && quote == 0) {
      words.emplace_back();
      continue;
    }
    if (quote == 0 && (c == '\'' || c == '"'))
      quote = c;
    else if (c == quote)
      quote = 0;
    words.back() += c;
  }
  return words;
}

// A command that is longer than a line goes on in the next, as a shell takes it.
std::string example_lines(const std::string& command, int width) {
  constexpr int kIndent = 2, kIndentBelow = 6;
  constexpr std::string_view kGoesOn = " \\";
  if (kIndent + display_width(command) <= width) return spaces(kIndent) + command + "\n";
  const int room = width - static_cast<int>(kGoesOn.size());
  std::string text = spaces(kIndent);
  int column = kIndent;
  bool begins = true;
  for (const std::string& word : shell_words_of(command)) {
    if (!begins && column + 1 + display_width(word) > room) {
      text += std::string(kGoesOn) + "\n" + spaces(kIndentBelow);
      column = kIndentBelow;
    } else if (!begins) {
      text += ' ';
      ++column;
    }
    begins = false;
    text += word;
    column += display_width(word);
  }
  return text + "\n";
}

std::string flag_lines(const Flag& flag, int width) {
  const int column = kFlagColumn * width / kWidth;
  std::string head = "  " + spelled(flag);
  const int room = column - display_width(head);
  head += room > 0 ? spaces(room) : "\n" + spaces(column);
  std::string help = flag.help;
  if (!flag.choices.empty()) {
    const std::string choices = fmt::format(" ({})", fmt::join(flag.choices, "|"));
    // A list that is longer than a line needs places to wrap.
    const bool fits = display_width(choices) <= width - column;
    help += fits ? choices : fmt::format(" ({})", fmt::join(flag.choices, " | "));
  }
  if (!flag.default_text.empty()) help += fmt::format(" [{}]", flag.default_text);
  if (!flag.aliases.empty()) help += fmt::format(" (also --{})", fmt::join(flag.aliases, ", --"));
  return head + wrap_help(help, column, width) + "\n";
}

}  // namespace

int help_width() { return std::clamp(terminal_width(STDOUT_FILENO), kLeastWidth, kWidth); }

std::string program_help(const std::vector<const Verb*>& verbs, int width) {
  constexpr int kSummary = 15;
  std::string text =
      wrap_help("Headroom measures, explains and limits the memory of neural networks.", 0, width) +
      "\nUsage: headroom VERB [FLAGS] …\n\n";  // 24 lines are one screen
  for (const Verb* verb : verbs)
    text += fmt::format("  {:<12} {}\n", verb->name, wrap_help(verb->summary, kSummary, width));
  text += "\nExample:\n" +
          example_lines("headroom bench --source photos --model detector=yolo.onnx --mem-limit 2GiB", width);
  return text +
         wrap_help("headroom help VERB shows all flags; headroom --version prints the version.", 0, width) +
         "\n";
}

std::string short_help(const Verb& verb, int width) {
  std::string text =
      fmt::format("{}\n\nUsage: {}\n\n", wrap_help(verb.summary, 0, width), wrap_help(verb.usage, 7, width));
  for (const Flag& flag : verb.flags)
    if (flag.common) text += flag_lines(flag, width);
  text += "\nExamples:\n";
  for (std::size_t i = 0; i < std::min<std::size_t>(3, verb.examples.size()); ++i)
    text += example_lines(verb.examples[i], width);
  return text + fmt::format("\nAll flags: headroom {} --help\n", verb.name);
}

std::string long_help(const Verb& verb, int width) {
  std::string text = fmt::format("{}\n\nUsage: {}\n\n{}\n", wrap_help(verb.summary, 0, width),
                                 wrap_help(verb.usage, 7, width), wrap_help(verb.description, 0, width));
  std::vector<std::string> groups;
  for (const Flag& flag : verb.flags)
    if (std::find(groups.begin(), groups.end(), flag.group) == groups.end()) groups.push_back(flag.group);
  for (const std::string& group : groups) {
    text += fmt::format("\n{}:\n", group);
    for (const Flag& flag : verb.flags)
      if (flag.group == group) text += flag_lines(flag, width);
  }
  if (!verb.examples.empty()) text += "\nExamples:\n";
  for (const std::string& example : verb.examples) text += example_lines(example, width);
  return text;
}

// --- man page
// -----------------------------------------------------------------------------------------------

namespace {

// Text for roff: backslashes and leading dots escaped, hyphens kept as hyphens.
std::string roff(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\')
      result += "\\e";
    else if (c == '-')
      result += "\\-";
    else
      result += c;
  }
  if (result.starts_with(".") || result.starts_with("'")) result.insert(0, "\\&");
  return result;
}

}  // namespace

std::string man_page(const std::vector<const Verb*>& verbs) {
  std::string text = ".TH HEADROOM 1 \"\" \"headroom " HEADROOM_VERSION "\" \"User Commands\"\n";
  text += ".SH NAME\nheadroom \\- measure, limit and explain the memory of neural networks\n";
  text += ".SH SYNOPSIS\n.B headroom\n.I VERB\n[\\fIFLAGS\\fR]\n";
  for (const Verb* verb : verbs) {
    text += fmt::format(".SH {}\n{}.\n.PP\n.B {}\n", roff("HEADROOM " + verb->name), roff(verb->summary),
                        roff(verb->usage));
    if (!verb->description.empty()) text += fmt::format(".PP\n{}\n", roff(verb->description));
    for (const Flag& flag : verb->flags) {
      text += fmt::format(".TP\n.B {}\n{}", roff(spelled(flag)), roff(flag.help));
      if (!flag.default_text.empty()) text += fmt::format(" (default {})", roff(flag.default_text));
      text += "\n";
    }
    if (!verb->examples.empty()) text += ".PP\nExamples:\n.nf\n";
    for (const std::string& example : verb->examples) text += roff("  " + example) + "\n";
    if (!verb->examples.empty()) text += ".fi\n";
  }
  text +=
      ".SH EXIT STATUS\n0: success. 1: a model or a gate failed. 2: wrong usage or unreadable input. 3: "
      "internal error. 130: stopped by Ctrl\\-C.\n";
  return text;
}

// --- completions
// --------------------------------------------------------------------------------------------

namespace {

bool takes_path(const Flag& flag) {
  return flag.kind == FlagKind::text && (flag.value_name.find("DIR") != std::string::npos ||
                                         flag.value_name.find("FILE") != std::string::npos ||
                                         flag.value_name.find("PATH") != std::string::npos ||
                                         flag.value_name.find("SRC") != std::string::npos);
}

std::string verb_names(const std::vector<const Verb*>& verbs) {
  std::string names;
  for (const Verb* verb : verbs) names += (names.empty() ? "" : " ") + verb->name;
  return names;
}

std::string in_quotes(std::string_view text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

}  // namespace

std::string bash_completion(const std::vector<const Verb*>& verbs) {
  std::string text =
      "_headroom() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} verb=${COMP_WORDS[1]}\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n";
  text += fmt::format(
      "    COMPREPLY=($(compgen -W \"{} --help --version\" -- \"$cur\"))\n    return\n  fi\n  case $verb "
      "in\n",
      verb_names(verbs));
  for (const Verb* verb : verbs) {
    std::string flags;
    for (const Flag& flag : verb->flags) flags += fmt::format("{}--{}", flags.empty() ? "" : " ", flag.name);
    text += fmt::format("    {})\n      case $prev in\n", verb->name);
    for (const Flag& flag : verb->flags) {
      if (!flag.choices.empty())
        text += fmt::format("        --{}) COMPREPLY=($(compgen -W \"{}\" -- \"$cur\")); return ;;\n",
                            flag.name, fmt::join(flag.choices, " "));
      else if (takes_path(flag))
        text += fmt::format("        --{}) COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n", flag.name);
    }
    text += fmt::format(
        "      esac\n      case $cur in\n        -*) COMPREPLY=($(compgen -W \"{} --help\" -- \"$cur\")) ;;\n"
        "        *) COMPREPLY=($(compgen -f -- \"$cur\")) ;;\n      esac ;;\n",
        flags);
  }
  return text + "  esac\n}\ncomplete -o filenames -F _headroom headroom\n";
}

std::string zsh_completion(const std::vector<const Verb*>& verbs) {
  std::string text = "#compdef headroom\n_headroom() {\n  if (( CURRENT == 2 )); then\n    local -a verbs=(";
  for (const Verb* verb : verbs) text += fmt::format("{} ", in_quotes(verb->name + ":" + verb->summary));
  text += ")\n    _describe verb verbs\n    return\n  fi\n  case $words[2] in\n";
  for (const Verb* verb : verbs) {
    text += fmt::format("    {}) _arguments -s", verb->name);
    for (const Flag& flag : verb->flags) {
      std::string help = flag.help;
      std::replace(help.begin(), help.end(), '[', '(');
      std::replace(help.begin(), help.end(), ']', ')');
      std::replace(help.begin(), help.end(), ':', ';');
      std::string spec = fmt::format("{}--{}[{}]", flag.repeated ? "*" : "", flag.name, help);
      if (!flag.choices.empty())
        spec += fmt::format(":value:({})", fmt::join(flag.choices, " "));
      else if (takes_path(flag))
        spec += ":file:_files";
      else if (flag.kind != FlagKind::toggle)
        spec += ":value:";
      text += " " + in_quotes(spec);
    }
    text += " '*:file:_files' ;;\n";
  }
  return text + "  esac\n}\n_headroom \"$@\"\n";
}

std::string fish_completion(const std::vector<const Verb*>& verbs) {
  std::string text;
  for (const Verb* verb : verbs) {
    text += fmt::format("complete -c headroom -n __fish_use_subcommand -f -a {} -d {}\n", verb->name,
                        in_quotes(verb->summary));
    for (const Flag& flag : verb->flags) {
      text += fmt::format("complete -c headroom -n '__fish_seen_subcommand_from {}' -l {} -d {}", verb->name,
                          flag.name, in_quotes(flag.help));
      if (!flag.choices.empty())
        text += fmt::format(" -x -a '{}'", fmt::join(flag.choices, " "));
      else if (flag.kind != FlagKind::toggle)
        text += " -r";
      text += "\n";
    }
  }
  return text;
}

}  // namespace headroom::cli
