"""`completion`: the script by which a shell completes verbs and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion_verb(context: click.Context, shell: str) -> None:
    """Print what a shell reads to complete verbs and options.

    \b
    lineage-store completion bash > ~/.local/share/bash-completion/completions/lineage-store
    lineage-store completion zsh > "${fpath[1]}/_lineage-store"
    lineage-store completion fish > ~/.config/fish/completions/lineage-store.fish
    """
    from lineage_store.cli.app import COMPLETION, PROGRAM

    completer = get_completion_class(shell)
    assert completer is not None, "click knows every shell of the choice"
    program = context.find_root().command
    click.echo(completer(program, {}, PROGRAM, COMPLETION).source())
