import subprocess
import sys

from gpnn.setting_names import nearest_setting, unknown_settings


def test_options_tables_and_sections_may_be_settings():
    assert unknown_settings(["schedule.intra", "data.num_nodes", "model.cell_options.alpha", "train", "budget"]) == []


def test_wrong_names_come_by_section_each_once():
    found = unknown_settings(["train.epochs", "modl.cell", "train.epoch", "modl.k"])
    assert [sentence.split("`")[1] for sentence in found] == ["train.epoch", "modl"]


def test_what_others_call_it():
    assert nearest_setting("lr") == "train.learning_rate"


def test_a_wrong_setting_is_told_without_torch(tmp_path):
    code = (
        "import sys; sys.argv = ['gpnn', 'train', 'cora', 'train.epoch=3']\n"
        "from gpnn.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: print(end.code, 'torch' in sys.modules, 'numpy' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert shown.stdout.split() == ["2", "False", "False"]
    assert "Did you mean `train.epochs`?" in shown.stderr
