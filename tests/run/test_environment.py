import json

import gpnn
from gpnn.run.environment import describe_environment


def test_it_names_versions_and_machine_and_is_json():
    environment = json.loads(json.dumps(describe_environment()))
    assert environment["gpnn"] == gpnn.__version__
    assert environment["packages"]["torch"]
    assert environment["device"] == "cpu"
