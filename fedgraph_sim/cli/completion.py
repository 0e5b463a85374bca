"""``fedgraph-sim completion``."""

import click


@click.command()
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the lines that make SHELL complete commands, options, names, keys and files of fedgraph-sim.

    \b
    Examples:
      bash    echo 'eval "$(fedgraph-sim completion bash)"' >> ~/.bashrc
      zsh     echo 'eval "$(fedgraph-sim completion zsh)"' >> ~/.zshrc
      fish    fedgraph-sim completion fish > ~/.config/fish/completions/fedgraph-sim.fish
    """  # noqa: D301
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    if shell == "bash":
        click.echo("COMP_WORDBREAKS=${COMP_WORDBREAKS//:}  # recipe:NAME is one word")
    click.echo(kind(ctx.find_root().command, {}, "fedgraph-sim", "_FEDGRAPH_SIM_COMPLETE").source())
