@group(0) @binding(3) var<storage, read_write> v13: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> v9: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> v5: array<vec4<f32>>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 2>, static_meta: array<u32, 4> }
@group(0) @binding(4) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn route_backward_probs_softmax(@builtin(workgroup_id) v155: vec3<u32>, @builtin(num_workgroups) v157: vec3<u32>, @builtin(local_invocation_index) v164: u32) {
let v176 = &v13;
let v177 = &v9;
let v178 = &v5;
let v179 = &v1;
let v17 = info_var.scalars_usize[0];
let v18 = info_var.scalars_usize[1];
let v156 = v155[2];
let v110 = u32(v156);
let v158 = v157[1];
let v112 = u32(v158);
let v113 = v110 * v112;
let v159 = v157[0];
let v115 = u32(v159);
let v116 = v113 * v115;
let v160 = v155[1];
let v118 = u32(v160);
let v121 = v118 * v115;
let v122 = v116 + v121;
let v162 = v155[0];
let v124 = u32(v162);
let v125 = v122 + v124;
let v174 = u32(64);
let v128 = v125 * v174;
let v165 = v164;
let v130 = u32(v165);
let v131 = v128 + v130;
let v20 = v131 < v17;
if v20 {
let v22 = v131 * v18;
let v23 = f32(0.0);
let v24 = vec4<f32>(v23);
var<function> v89_store: vec4<f32>;
let v89 = &v89_store;
*v89 = v24;
let v26 = v22 + v18;
let v27 = u32(1);
for(var v28: u32 = v22; v28 < v26; v28 += v27) {
let v33 = &(*v178)[v28];
let v34 = *v33;
let v43 = &(*v177)[v28];
let v44 = *v43;
let v45 = v34 * v44;
let v48 = v34 == v24;
let v49 = select(v45, v24, v48);
let v50 = *v89;
let v51 = v50 + v49;
*v89 = v51;

}
let v52 = *v89;
var<function> v108_store: f32;
let v108 = &v108_store;
*v108 = v23;
let v94 = v52[0];
let v95 = *v108;
let v96 = v95 + v94;
*v108 = v96;
let v97 = v52[1];
let v98 = *v108;
let v99 = v98 + v97;
*v108 = v99;
let v100 = v52[2];
let v101 = *v108;
let v102 = v101 + v100;
*v108 = v102;
let v103 = v52[3];
let v104 = *v108;
let v105 = v104 + v103;
*v108 = v105;
let v106 = *v108;
let v54 = vec4<f32>(v106);
for(var v57: u32 = v22; v57 < v26; v57 += v27) {
let v62 = &(*v178)[v57];
let v63 = *v62;
let v72 = &(*v177)[v57];
let v73 = *v72;
let v74 = v73 - v54;
let v75 = v63 * v74;
let v78 = v63 == v24;
let v79 = select(v75, v24, v78);
let v83 = &(*v176)[v57];
*v83 = v79;

}

}
return;

}
