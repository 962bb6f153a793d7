package main

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/bglm/bglm/cmd/internal/cli"
	"github.com/bglm/bglm/cmd/internal/job"
	"github.com/bglm/bglm/kernels/option"
)

type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help is the text below the usage line.
func (*completionCommand) Help() string {
	return `Prints a script with which a shell completes commands, flags and their values.

Examples:

  bglm completion bash > /etc/bash_completion.d/bglm
  source <(bglm completion zsh)
  bglm completion fish > ~/.config/fish/completions/bglm.fish`
}

// Run prints the script, generated from the command line's own description.
func (c *completionCommand) Run(e *cli.Env, k *kong.Kong) error {
	var b strings.Builder
	switch c.Shell {
	case "bash":
		bashCompletion(&b, k)
	case "zsh":
		// zsh runs the functions of bash.
		b.WriteString("autoload -U +X bashcompinit && bashcompinit\n")
		bashCompletion(&b, k)
	case "fish":
		fishCompletion(&b, k)
	}
	_, err := fmt.Fprint(e.Stdout, b.String())
	return err
}

// flagWords are a command's flags, and the values of those that have a choice.
func flagWords(n *kong.Node) (flags []string, values map[string]string) {
	values = map[string]string{}
	for _, f := range n.Flags {
		flags = append(flags, "--"+f.Name)
		if f.Enum != "" {
			values["--"+f.Name] = strings.TrimSpace(strings.ReplaceAll(f.Enum, ",", " "))
		}
		switch f.Name {
		case "method":
			values["--method"] = strings.Join(job.MethodNames(), " ")
		case "option":
			of := option.For("from_beliefs", "influence")
			if n.Name == "fit" {
				of = job.FitOptions()
			}
			values["--option"] = strings.Join(of.Keys(), "= ") + "="
		}
	}
	return append(flags, "--help"), values
}

func bashCompletion(b *strings.Builder, k *kong.Kong) {
	var commands []string
	var cases, words strings.Builder
	for _, p := range job.FitOptions() {
		if w := p.Words(); len(w) > 0 {
			fmt.Fprintf(&words, "    %s) COMPREPLY=($(compgen -W \"%s\" -- \"$cur\")); return;;\n", p.Key, strings.Join(w, " "))
		}
	}
	for _, n := range k.Model.Children {
		commands = append(commands, n.Name)
		flags, values := flagWords(n)
		fmt.Fprintf(&cases, "    %s)\n      case \"$prev\" in\n", n.Name)
		for _, f := range flags {
			if v := values[f]; v != "" {
				also := ""
				if f == "--option" {
					also = "compopt -o nospace 2>/dev/null; "
				}
				fmt.Fprintf(&cases, "        %s) %sCOMPREPLY=($(compgen -W \"%s\" -- \"$cur\")); return;;\n", f, also, v)
			}
		}
		fmt.Fprintf(&cases, "      esac\n      words=\"%s\";;\n", strings.Join(flags, " "))
	}
	fmt.Fprintf(b, `_bglm() {
  local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" words=""
  COMPREPLY=()
  local key=""
  if [ "$cur" = "=" ]; then key="$prev"; cur=""; elif [ "$prev" = "=" ]; then key="${COMP_WORDS[COMP_CWORD-2]}"; fi
  case "$key" in
%s  esac
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "%s --help" -- "$cur"))
    return
  fi
  case "${COMP_WORDS[1]}" in
%s  esac
  case "$cur" in
    -*) COMPREPLY=($(compgen -W "$words" -- "$cur"));;
    *) COMPREPLY=($(compgen -f -- "$cur"));;
  esac
}
complete -o filenames -F _bglm bglm
`, words.String(), strings.Join(commands, " "), cases.String())
}

func fishCompletion(b *strings.Builder, k *kong.Kong) {
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", `\'`) + "'" }
	for _, n := range k.Model.Children {
		fmt.Fprintf(b, "complete -c bglm -n __fish_use_subcommand -f -a %s -d %s\n", n.Name, quote(n.Help))
		_, values := flagWords(n)
		for _, f := range n.Flags {
			more := ""
			if f.Short != 0 {
				more += fmt.Sprintf(" -s %c", f.Short)
			}
			switch {
			case values["--"+f.Name] != "":
				more += " -x -a " + quote(values["--"+f.Name])
			case !f.IsBool():
				more += " -r"
			}
			fmt.Fprintf(b, "complete -c bglm -n '__fish_seen_subcommand_from %s' -l %s%s -d %s\n", n.Name, f.Name, more, quote(f.Help))
		}
	}
}
