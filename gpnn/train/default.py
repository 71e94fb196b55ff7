"""The default recipe, the same for every graph; docs/recipes.md says how it was chosen."""

from gpnn.train.recipe import Recipe

# Two passes whose sharpened average both are drawn to: on every graph tried it gained, or did no harm.
DEFAULT_RECIPE = Recipe(
    epochs=400, patience=100, weight_decay="auto", passes=2, consistency=1.0, consistency_warmup=100, temperature=0.5
)
