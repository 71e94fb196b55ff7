"""Sixty mistakes and oddities, and what a person gets: docs/mistakes.md. `python -m docs.mistakes` writes it anew.

`tests/docs/test_mistakes.py` makes each mistake and compares.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_name("mistakes.md")
NODES = (
    "id,label,age,city\nann,chess,31,Oslo\nbob,choir,45,Rome\ncleo,,22,Oslo\ndan,chess,50,Lima\neve,choir,47,Rome\n"
    "fay,,33,Rome\n"
)
EDGES = "source,target\nann,cleo\ncleo,dan\nbob,eve\neve,fay\n"
HEAD = """# Mistakes and oddities

What a person gets for a mistake, and for what is none but looks odd: {count} of them. The tests make each one, with six
friends:

```
friends/nodes.csv            friends/edges.csv
id,label,age,city            source,target
ann,chess,31,Oslo            ann,cleo
bob,choir,45,Rome            cleo,dan
cleo,,22,Oslo                bob,eve
dan,chess,50,Lima            eve,fay
eve,choir,47,Rome
fay,,33,Rome
```

A sentence in the last column ends the command; the exit code is 2 and nothing is written. A note is printed, and the
command continues.
"""


@dataclass(frozen=True)
class Mistake:
    """Something that people do, and what they get.

    Attributes:
        about: what is odd, as the page has it.
        gets: the sentence that ends the command, or the note.
        reads: facts that `gpnn data describe --json` shows, where nothing is amiss.
        files: files of the folder `friends` that differ from the usual ones; None: the file is missing.
        call: a command line, or Python that begins with `import`.
        run: whether there is a run of the usual friends, in the folder `run`.
        goes_on: whether `gets` is a note.
    """

    about: str
    gets: str = ""
    reads: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str | bytes | None] = field(default_factory=dict)
    call: str = "gpnn data describe friends"
    run: bool = False
    goes_on: bool = False

    @property
    def is_read(self) -> bool:
        """Whether the command does what it is there for."""
        return bool(self.reads) or self.goes_on


def nodes(text: str) -> dict[str, str | bytes | None]:
    return {"nodes.csv": text}


def edges(text: str) -> dict[str, str | bytes | None]:
    return {"edges.csv": text}


READ = {"nodes": 6, "edges": 4, "classes": 2}
TRAIN = "gpnn train friends --out new"
PYTHON = "import gpnn, torch; from torch_geometric.data import Data, HeteroData; "
PAIR = "torch.tensor([[0, 1], [1, 0]])"

SECTIONS: dict[str, list[Mistake]] = {
    "Files and folders": [
        Mistake(
            "a folder that is not there",
            "`data.name` must be a dataset, a folder of tables, or a file that ends in .graph, .metis, .graphml, .gexf, .pt, .sqlite, .sqlite3, .duckdb, .db. './freinds' does not exist (the nearest is friends).",
            call="gpnn train ./freinds --out new",
        ),
        Mistake(
            "a name that is almost a dataset's",
            "`data.name` must be a dataset (`gpnn data list` has them), a folder of tables, or a file that ends in .graph, .metis, .graphml, .gexf, .pt, .sqlite, .sqlite3, .duckdb, .db. Got 'coar' (the nearest is cora).",
            call="gpnn train coar --out new",
        ),
        Mistake(
            "a folder that is called like a dataset",
            "'people' must be one thing (./people is the folder). Got a dataset and a folder of tables.",
            files={"../people/nodes.csv": NODES, "../people/edges.csv": EDGES},
            call="gpnn train people --out new",
        ),
        Mistake(
            "one table instead of its folder",
            "`data.name` must be the folder that holds nodes.* and edges.* (or name the files with --nodes and --edges). Got one table, 'friends/nodes.csv'.",
            call="gpnn train friends/nodes.csv --out new",
        ),
        Mistake(
            "a folder without edges",
            "friends must hold edges.csv or edges.tsv or edges.parquet or edges.npz or edges.graph or edges.metis. Got nodes.csv.",
            files={"edges.csv": None},
        ),
        Mistake(
            "two tables of nodes",
            "friends must hold one table of nodes. Got nodes.csv, nodes.tsv.",
            files={"nodes.tsv": "id\na\n"},
        ),
        Mistake(
            "a spreadsheet",
            "friends must hold nodes.csv or nodes.tsv or nodes.parquet or nodes.npz (save a spreadsheet as CSV). Got edges.csv, nodes.xlsx.",
            files={"nodes.csv": None, "nodes.xlsx": b"PK\x03\x04"},
        ),
        Mistake("an empty file", "nodes.csv must be a table in UTF-8 with a header: Empty CSV file.", files=nodes("")),
        Mistake("a header and no row", "nodes.csv must hold at least one node. Got none.", files=nodes("id,label\n")),
        Mistake(
            "a table without a header",
            "edges.csv must have a column source, named in its first line. Got 7, 8.",
            files=edges("7,8\n8,9\n"),
        ),
        Mistake(
            "two columns of one name",
            "nodes.csv, line 1: every column must have a name of its own. Got 'id,label,age,age'.",
            files=nodes(NODES.replace("city", "age")),
        ),
        Mistake(
            "a row with a value too many",
            "nodes.csv, line 5: 4 values are expected. Got 5: 'dan,chess,50,Lima,Peru'.",
            files=nodes(NODES.replace("Lima", "Lima,Peru")),
        ),
        Mistake(
            "a compressed file",
            reads=READ,
            files={"nodes.csv": None, "nodes.csv.gz": gzip.compress(NODES.encode(), mtime=0)},
        ),
        Mistake(
            "a compressed file that was cut",
            "nodes.csv.gz must be an undamaged file of gzip. Got: Truncated compressed stream.",
            files={"nodes.csv": None, "nodes.csv.gz": gzip.compress(NODES.encode(), mtime=0)[:60]},
        ),
        Mistake(
            "two files of edges, `edges_likes.csv` and `edges_knows.csv`",
            "the 2 files of edges are edge types: knows, likes",
            files={"edges.csv": None, "edges_likes.csv": EDGES, "edges_knows.csv": EDGES},
            goes_on=True,
        ),
    ],
    "How text is written": [
        Mistake("semicolons", reads=READ, files=nodes(NODES.replace(",", ";"))),
        Mistake(
            "a first line `sep=;`",
            "nodes.csv, line 1: must name the columns; sep= is a line for spreadsheets, remove it.",
            files=nodes("sep=;\n" + NODES.replace(",", ";")),
        ),
        Mistake("tabs in a file that ends in .csv", reads=READ, files=nodes(NODES.replace(",", "\t"))),
        Mistake(
            "decimal commas",
            "nodes.csv, column age: commas are decimal ones, 31,5 is read as 31.5",
            files=nodes("id;label;age\nann;chess;31,5\nbob;choir;45,0\ncleo;;22,5\ndan;chess;5\neve;choir;7\nfay;;3\n"),
            goes_on=True,
        ),
        Mistake(
            "separators of thousands",
            "nodes.csv, line 2, column age: must be a number without separators of thousands (data.categorical=age makes the column categories, data.ignore=age leaves it out). Got '31,000'.",
            files=nodes(NODES.replace("31", '"31,000"').replace("45", '"45,000"')),
        ),
        Mistake(
            "UTF-16, as spreadsheets export it",
            "nodes.csv is not in UTF-8 and is read as UTF-16",
            files=nodes(NODES.encode("utf-16")),
            goes_on=True,
        ),
        Mistake(
            "Latin-1",
            "nodes.csv is not in UTF-8 and is read as Latin-1 (Windows-1252)",
            files=nodes(NODES.replace("Lima", "Köln").encode("latin-1")),
            goes_on=True,
        ),
        Mistake(
            "UTF-8 and Latin-1 in one file",
            "nodes.csv, line 8: must be text in UTF-8. Got 'gus,,3,K�ln'.",
            files=nodes(NODES.replace("Lima", "Köln").encode() + "gus,,3,Köln\n".encode("latin-1")),
        ),
        Mistake(
            "a byte order mark, line ends of Windows, blank lines",
            reads=READ,
            files=nodes(b"\xef\xbb\xbf" + NODES.replace("\n", "\r\n\r\n").encode()),
        ),
        Mistake(
            "names of columns in capitals",
            reads=READ,
            files={
                "nodes.csv": NODES.replace("id,label", "ID,Label"),
                "edges.csv": EDGES.replace("source,target", "Source,TARGET"),
            },
        ),
        Mistake(
            "a value with a comma, in quotes",
            reads={**READ, "columns": {"age": "number", "city": "4 categories"}},
            files=nodes(NODES.replace("fay,,33,Rome", 'fay,,33,"Rome, Italy"')),
        ),
        Mistake(
            "a byte 0",
            "nodes.csv, line 3: must be text (UTF-16 begins with its mark). Got a byte 0.",
            files=nodes(NODES.replace("bob", "b\0b")),
        ),
        Mistake("blanks around values", reads=READ, files=edges(EDGES.replace(",", " , "))),
    ],
    "Ids": [
        Mistake(
            "nodes called `name` instead of `id`",
            "nodes.csv must have a column id (data.id=name takes that for it). Got name, label, age, city.",
            files=nodes(NODES.replace("id,", "name,")),
        ),
        Mistake(
            "edges called `from` and `to`",
            "edges.csv must have a column source (data.source=from takes that for it). Got from, to.",
            files=edges(EDGES.replace("source,target", "from,to")),
        ),
        Mistake(
            "a column that was named and is not there",
            "edges.csv must have a column start. Got source, target.",
            call="gpnn data describe friends data.source=start",
        ),
        Mistake(
            "an edge to nobody",
            "edges.csv, line 6, column target: must be an id of nodes.csv. Got 'zoe'.",
            files=edges(EDGES + "fay,zoe\n"),
        ),
        Mistake(
            "ids that are written in two ways",
            "edges.csv, line 2, column source: must be an id of nodes.csv (nodes.csv has 5: ids must be written alike). Got '05'.",
            files={"nodes.csv": "id\n5\n6\n", "edges.csv": "source,target\n05,6\n"},
        ),
        Mistake(
            "an id twice",
            "nodes.csv, line 8, column id: must be distinct and is on line 2 already. Got 'ann'.",
            files=nodes(NODES + "ann,chess,3,Oslo\n"),
        ),
        Mistake(
            "a row without an id",
            "nodes.csv, line 8, column id: must not be empty. Got ''.",
            files=nodes(NODES + ",chess,3,Oslo\n"),
        ),
        Mistake(
            "an edge to oneself, and an edge twice",
            reads={"edges": 6, "self-loops": 1},
            files=edges(EDGES + "ann,ann\nann,cleo\n"),
        ),
        Mistake("somebody without an edge", reads={"isolated nodes": 1}, files=nodes(NODES + "gus,,3,Oslo\n")),
    ],
    "Columns": [
        Mistake(
            "numbers that are missing: empty, NA, n/a, NaN",
            reads={"features": 5, "columns": {"age": "number, with gaps", "city": "3 categories"}},
            files=nodes(NODES.replace(",31,", ",,").replace(",45,", ",NA,").replace(",50,", ",n/a,")),
        ),
        Mistake(
            "a word among numbers",
            "nodes.csv, line 5, column age: must be a finite number, like the others (data.categorical=age makes all of them categories). Got 'old'.",
            files=nodes(NODES.replace("50", "old")),
        ),
        Mistake(
            "infinity among numbers",
            "nodes.csv, line 5, column age: must be a finite number. Got '1e999'.",
            files=nodes(NODES.replace("50", "1e999")),
        ),
        Mistake(
            "a number past 32 bits",
            "nodes.csv, line 5, column age: must be a finite number of 32 bits. Got '1e39'.",
            files=nodes(NODES.replace("50", "1e39")),
        ),
        Mistake(
            "dates",
            files=nodes(
                "id,label,born\nann,chess,1990-05-31\nbob,choir,1975-01-01\ncleo,,\ndan,chess,1970-02-03\neve,choir,1973-02-01\nfay,,1980-01-01\n"
            ),
            reads={"columns": {"born": "date, with gaps"}},
        ),
        Mistake(
            "a date that does not exist",
            "nodes.csv, line 2, column born: must be a date. Got '1990-02-31'.",
            files=nodes(
                "id,label,born\nann,chess,1990-02-31\nbob,choir,1975-01-01\ncleo,,\ndan,chess,1970-02-03\neve,choir,1973-02-01\nfay,,1980-01-01\n"
            ),
        ),
        Mistake(
            "an empty column",
            "column note is empty and left out",
            files=nodes("id,label,note\nann,chess,\nbob,choir,\ncleo,,\ndan,chess,\neve,choir,\nfay,,\n"),
            goes_on=True,
        ),
        Mistake(
            "a category for everybody",
            "column mail has a category for every node, so it has no information: data.ignore=mail",
            files={
                "nodes.csv": "id,label,mail\n" + "".join(f"n{n},{'ab'[n % 2]},m{n}x\n" for n in range(30)),
                "edges.csv": "source,target\nn0,n1\n",
            },
            goes_on=True,
        ),
        Mistake(
            "more than a thousand categories",
            "nodes.csv, column mail: must hold numbers or at most 1,000 categories (data.ignore=mail leaves it out). Got 1,001.",
            files={
                "nodes.csv": "id,label,mail\n" + "".join(f"n{n},{'ab'[n % 2]},m{n}x\n" for n in range(1001)),
                "edges.csv": "source,target\nn0,n1\n",
            },
        ),
        Mistake(
            "postal codes, which are no numbers",
            call="gpnn data describe friends data.categorical=age",
            reads={"columns": {"age": "6 categories", "city": "3 categories"}},
        ),
        Mistake(
            "a column of edges that no model takes",
            "edges.csv may have the columns source, target, type, weight (data.ignore=since leaves it out, data.weight=since makes it the weight, data.type=since makes it the type). Got since.",
            files=edges("source,target,since\nann,cleo,2020\n"),
        ),
        Mistake(
            "a weight that is no number",
            "edges.csv, line 2, column weight: must be a finite number. Got 'heavy'.",
            files=edges("source,target,weight\nann,cleo,heavy\n"),
        ),
        Mistake(
            "an edge without a type among typed ones",
            "edges.csv, line 3, column type: must not be empty. Got ''.",
            files=edges("source,target,type\nann,cleo,likes\ncleo,dan,\n"),
        ),
        Mistake(
            "a friendship that is written once",
            "4 edges have no reverse, so that messages go one way along them; data.undirected=true adds it",
            goes_on=True,
        ),
    ],
    "Labels and splits": [
        Mistake(
            "no labels",
            "A training needs labels: a column `label` of the nodes, or `y`. Got none.",
            files=nodes("id,age\nann,1\nbob,2\ncleo,3\ndan,4\neve,5\nfay,6\n"),
            call=TRAIN,
        ),
        Mistake(
            "a label's column that is not there",
            "nodes.csv must have a column club. Got id, label, age, city.",
            call="gpnn data describe friends data.label=club",
        ),
        Mistake(
            "labels that are all empty",
            "A training needs labels. Got none: all 6 are empty, NaN or -1.",
            files=nodes(NODES.replace("chess", "").replace("choir", "")),
            call=TRAIN,
        ),
        Mistake(
            "labels -1, nan and empty",
            reads={"labelled nodes": 3},
            files=nodes(NODES.replace("dan,chess", "dan,-1").replace("fay,", "fay,nan")),
        ),
        Mistake(
            "a label `NA`",
            "'NA' counts as a class, of 1 nodes: leave their labels empty if it means unknown",
            files=nodes(NODES.replace("cleo,", "cleo,NA")),
            goes_on=True,
        ),
        Mistake(
            "one class only",
            "A training needs at least two classes. Got 'chess' alone.",
            files=nodes(NODES.replace("choir", "chess")),
            call=TRAIN,
        ),
        Mistake(
            "a label for everybody",
            "Labels must be classes that nodes share; continuous numbers are for GPNNRegressor, or data.task=regression. Got 30 different labels on 30 labelled nodes.",
            files={
                "nodes.csv": "id,label\n" + "".join(f"n{n},m{n}x\n" for n in range(30)),
                "edges.csv": "source,target\nn0,n1\n",
            },
        ),
        Mistake(
            "labels that are fractions",
            reads={"labelled nodes": 4},
            files=nodes(NODES.replace("chess", "0.5").replace("choir", "1.25")),
        ),
        Mistake(
            "`trian` in the column split",
            "nodes.csv, line 2, column split: must be train, val, test or empty. Got 'trian'.",
            files=nodes(
                "id,label,split\nann,chess,trian\nbob,choir,val\ncleo,,\ndan,chess,test\neve,choir,train\nfay,,\n"
            ),
        ),
        Mistake(
            "somebody who trains without a label",
            "nodes.csv, line 4, column split: must be test or empty where the label is unknown. Got 'train'.",
            files=nodes(
                "id,label,split\nann,chess,train\nbob,choir,val\ncleo,,train\ndan,chess,test\neve,choir,train\nfay,,\n"
            ),
        ),
        Mistake(
            "few labels and no column split",
            "split drawn with seed 0, 60/20/20 % of each class: 2 nodes train, 0 validate, 2 test",
            goes_on=True,
        ),
    ],
    "Settings": [
        Mistake(
            "a setting that is almost one",
            "`train.epoch` is not a setting. Did you mean `train.epochs`?",
            call=TRAIN + " train.epoch=5",
        ),
        Mistake(
            "a setting without its section",
            "`lr` is not a setting. Did you mean `train.learning_rate`?",
            call=TRAIN + " lr=0.1",
        ),
        Mistake(
            "an option instead of a setting",
            "No such option: --epochs (Possible options: train.epochs=VALUE)",
            call=TRAIN + " --epochs 3",
        ),
        Mistake(
            "a value of the wrong type",
            "`train.epochs` must be an integer. Got 'many'.",
            call=TRAIN + " train.epochs=many",
        ),
        Mistake(
            "a seed below zero",
            "`seed` must be an integer from 0 to 2**63 - 1. Got -1.",
            call=f"{TRAIN} seed=-1",
        ),
        Mistake(
            "a value that is not a choice",
            "`partition.method` must be one of flood_fill, refined, clustered, spectral, metis, mtkahypar, random, components, given, auto, learned. Got 'metsi'.",
            call=TRAIN + " partition.method=metsi",
        ),
        Mistake(
            "more subgraphs than nodes", "`k` must be at most the 6 nodes. Got 1000.", call=TRAIN + " partition.k=1000"
        ),
        Mistake(
            "two datasets",
            "There must be one dataset or folder; settings look like key=value. Got friends, cora.",
            call="gpnn train friends cora --out new",
        ),
        Mistake(
            "an option of the dataset that it does not have",
            "`data.lable` is not a setting. Did you mean `data.label`?",
            call=TRAIN + " data.lable=club",
        ),
        Mistake(
            "a folder that holds a run already",
            "The run folder must be new. 'run' holds a run; continue it with `gpnn train --resume run`.",
            call="gpnn train friends --out run",
            run=True,
        ),
    ],
    "After a training": [
        Mistake(
            "a run that is not there",
            "A run folder must hold config.toml. 'nowhere' does not.",
            call="gpnn predict nowhere friends --out new.csv",
        ),
        Mistake(
            "predictions into a table of the graph",
            "`--out` must not be a file that the graph is read from. Got 'friends/nodes.csv'.",
            call="gpnn predict run friends --out friends/nodes.csv",
            run=True,
        ),
        Mistake(
            "a setting of the training at prediction",
            "A prediction has the settings of its run, but for where the graph is. Got train.epochs.",
            call="gpnn predict run friends train.epochs=5 --out new.csv",
            run=True,
        ),
        Mistake(
            "a column that is missing at prediction",
            "nodes.csv must have a column age. Got id, label, years, city.",
            files=nodes(NODES.replace("age", "years")),
            call="gpnn predict run friends --out new.csv",
            run=True,
        ),
        Mistake(
            "a number that is missing at prediction and never was before",
            "column age: 1 missing count as the mean; the model was trained without gaps",
            files=nodes(NODES.replace(",31,", ",,")),
            call="gpnn predict run friends --out new.csv",
            run=True,
            goes_on=True,
        ),
        Mistake(
            "a city that the run has not seen",
            "column city: 1 unseen categories ('Oran') count as unknown",
            files=nodes(NODES.replace("Lima", "Oran")),
            call="gpnn predict run friends --out new.csv",
            run=True,
            goes_on=True,
        ),
        Mistake(
            "a class that the run has not seen",
            "nodes of classes that the model does not know count as unlabelled: ['rugby']",
            files=nodes(NODES.replace("fay,", "fay,rugby")),
            call="gpnn predict run friends --out new.csv",
            run=True,
            goes_on=True,
        ),
        Mistake(
            "answers in a format that there is not",
            "`--out` must end in .parquet or .csv. Got 'new.xlsx'.",
            call="gpnn predict run friends --out new.xlsx",
            run=True,
        ),
    ],
    "In Python": [
        Mistake(
            "a list instead of a frame",
            "`nodes` must be a data frame of pandas, polars, pyarrow or DuckDB. Got list.",
            call="import gpnn; gpnn.from_frames([1, 2], None)",
        ),
        Mistake(
            "a frame instead of a graph",
            "`source` must be a dataset's name, a folder, a networkx graph, a PyG Data or a PyG dataset (frames: `gpnn.from_frames(nodes, edges)`). Got Table.",
            call="import gpnn, pyarrow; gpnn.load_dataset(pyarrow.table({'id': [1]}))",
        ),
        Mistake(
            "a column that mixes types",
            "`nodes` must be a frame of columns with one type and one name each (`astype(str)` makes text of one). Got: Could not convert 'a' with type str: tried to convert to int64; Conversion failed for column odd with type object.",
            call="import gpnn, pandas; gpnn.from_frames(pandas.DataFrame({'id': [0, 1], 'odd': [1, 'a']}), pandas.DataFrame({'source': [0], 'target': [1]}))",
        ),
        Mistake(
            "`edge_index` of the wrong shape",
            "`edge_index` must have shape [2, E] (`edge_index.t()` turns it). Got [5, 2].",
            call=PYTHON + "gpnn.load_dataset(Data(x=torch.eye(3), edge_index=torch.zeros(5, 2).long()))",
        ),
        Mistake(
            "an edge to a node that there is not",
            "`dst` must hold node ids from 0 to 1. Got 9.",
            call=PYTHON + "gpnn.load_dataset(Data(x=torch.eye(2), edge_index=torch.tensor([[0], [9]])))",
        ),
        Mistake(
            "features that are whole numbers",
            "`x` must be floating point (`x.float()`). Got int64.",
            call=PYTHON + f"gpnn.load_dataset(Data(x=torch.ones(2, 2).long(), edge_index={PAIR}))",
        ),
        Mistake(
            "NaN among features",
            "`x` must be finite. Got nan at node 1, column 0.",
            call=PYTHON + f"gpnn.load_dataset(Data(x=torch.tensor([[1.0], [float('nan')]]), edge_index={PAIR}))",
        ),
        Mistake(
            "ten splits in one mask",
            "`train_mask` must have shape [2] (pick one split: `data.train_mask[:, 0]`). Got [2, 10].",
            call=PYTHON
            + f"gpnn.load_dataset(Data(x=torch.eye(2), edge_index={PAIR}, y=torch.tensor([0, 1]), train_mask=torch.ones(2, 10).bool()))",
        ),
        Mistake(
            "masks that overlap",
            "`train_mask` and `val_mask` must not overlap. Got node 0 in both.",
            call=PYTHON
            + f"gpnn.load_dataset(Data(x=torch.eye(2), edge_index={PAIR}, y=torch.tensor([0, 1]), train_mask=torch.ones(2).bool(), val_mask=torch.ones(2).bool()))",
        ),
        Mistake(
            "two node types with labels",
            "One node type must have `y`; leave out the others (`del data['b'].y`). Got 'a', 'b'.",
            call=PYTHON
            + "h = HeteroData({'a': {'x': torch.eye(1), 'y': torch.tensor([0])}, 'b': {'x': torch.eye(1), 'y': torch.tensor([1])}}); h['a', 'to', 'b'].edge_index = torch.tensor([[0], [0]]); gpnn.load_dataset(h)",
        ),
        Mistake(
            "a prediction before a fit",
            "This GPNNClassifier instance is not fitted yet. Call 'fit' with appropriate arguments before using this estimator.",
            call=PYTHON + f"gpnn.GPNNClassifier().predict(Data(x=torch.eye(2), edge_index={PAIR}))",
        ),
    ],
}


def page() -> str:
    """The text of the page: a table per section."""
    count = sum(map(len, SECTIONS.values()))
    parts = [HEAD.format(count=count)]
    for title, rows in SECTIONS.items():
        parts.append(f"## {title}\n\n| what you do | what you get |\n|---|---|\n" + "".join(map(_row, rows)))
    return "\n".join(parts)


def _row(mistake: Mistake) -> str:
    if mistake.reads:
        got = "it is read: " + ", ".join(f"{name} {_fact(value)}" for name, value in mistake.reads.items())
    else:
        kind = "note: " if mistake.goes_on else ""
        got = f"{kind}`` {mistake.gets} ``" if "`" in mistake.gets else f"{kind}`{mistake.gets}`"
    usual = mistake.call == Mistake("").call or mistake.call.startswith("import")
    call = "" if usual else f": `{mistake.call}`"
    return f"| {mistake.about}{call} | {got} |\n".replace("\ufffd", "?")


def _fact(value: Any) -> str:
    return ", ".join(f"{name} as {kind}" for name, kind in value.items()) if isinstance(value, dict) else str(value)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
