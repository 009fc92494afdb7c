var<workgroup> shared_v62: array<f32, 128>;
@group(0) @binding(3) var<storage, read_write> v13: array<f32>;
@group(0) @binding(2) var<storage, read> v9: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> v5: array<vec4<f32>>;
@group(0) @binding(0) var<storage, read> v1: array<u32>;
struct info_st { scalars_usize: array<u32, 2>, scalars_u32: array<u32, 2>, static_meta: array<u32, 4> }
@group(0) @binding(4) var<storage, read> info_var: info_st;
@compute @workgroup_size(32, 4, 1)
fn combine_weights_gradient_f32(@builtin(local_invocation_id) v194: vec3<u32>, @builtin(workgroup_id) v216: vec3<u32>, @builtin(num_workgroups) v218: vec3<u32>) {
let v224 = &v13;
let v225 = &v9;
let v226 = &v5;
let v227 = &v1;
let v3 = u32(0);
let v172 = info_var.static_meta[3];
let v17 = info_var.scalars_usize[0];
let v18 = info_var.scalars_u32[0];
let v19 = info_var.scalars_usize[1];
let v195 = v194[0];
let v21 = u32(v195);
let v217 = v216[2];
let v197 = u32(v217);
let v219 = v218[1];
let v199 = u32(v219);
let v200 = v197 * v199;
let v220 = v218[0];
let v202 = u32(v220);
let v203 = v200 * v202;
let v221 = v216[1];
let v205 = u32(v221);
let v208 = v205 * v202;
let v209 = v203 + v208;
let v223 = v216[0];
let v211 = u32(v223);
let v212 = v209 + v211;
let v23 = u32(4);
let v24 = v212 * v23;
let v213 = v194[1];
let v26 = u32(v213);
let v27 = v24 + v26;
let v28 = f32(0.0);
let v29 = vec4<f32>(v28);
var<function> v173_store: vec4<f32>;
let v173 = &v173_store;
*v173 = v29;
let v32 = v27 < v172;
if v32 {
let v36 = &(*v227)[v27];
let v37 = *v36;
let v38 = v37 < v18;
if v38 {
let v39 = v27 / v19;
let v40 = v39 * v17;
let v41 = u32(v37);
let v42 = v41 * v17;
let v43 = u32(32);
for(var v44: u32 = v21; v44 < v17; v44 += v43) {
let v46 = v40 + v44;
let v50 = &(*v226)[v46];
let v51 = *v50;
let v52 = v42 + v44;
let v56 = &(*v225)[v52];
let v57 = *v56;
let v58 = *v173;
let v59 = fma(v51, v57, v58);
*v173 = v59;

}

}

}
let v60 = *v173;
var<function> v193_store: f32;
let v193 = &v193_store;
*v193 = v28;
let v178 = v60[0];
let v179 = *v193;
let v180 = v179 + v178;
*v193 = v180;
let v181 = v60[1];
let v182 = *v193;
let v183 = v182 + v181;
*v193 = v183;
let v184 = v60[2];
let v185 = *v193;
let v186 = v185 + v184;
*v193 = v186;
let v187 = v60[3];
let v188 = *v193;
let v189 = v188 + v187;
*v193 = v189;
let v190 = *v193;
let v191 = &shared_v62;
let v70 = u32(32);
let v71 = v26 * v70;
let v72 = v71 + v21;
let v76 = &(*v191)[v72];
*v76 = v190;
workgroupBarrier();
let v77 = u32(16);
let v78 = v21 < v77;
if v78 {
let v80 = v72 + v77;
let v84 = &(*v191)[v80];
let v85 = *v84;
let v90 = *v76;
let v91 = v90 + v85;
*v76 = v91;

}
workgroupBarrier();
let v92 = u32(8);
let v93 = v21 < v92;
if v93 {
let v95 = v72 + v92;
let v99 = &(*v191)[v95];
let v100 = *v99;
let v105 = *v76;
let v106 = v105 + v100;
*v76 = v106;

}
workgroupBarrier();
let v108 = v21 < v23;
if v108 {
let v110 = v72 + v23;
let v114 = &(*v191)[v110];
let v115 = *v114;
let v120 = *v76;
let v121 = v120 + v115;
*v76 = v121;

}
workgroupBarrier();
let v122 = u32(2);
let v123 = v21 < v122;
if v123 {
let v125 = v72 + v122;
let v129 = &(*v191)[v125];
let v130 = *v129;
let v135 = *v76;
let v136 = v135 + v130;
*v76 = v136;

}
workgroupBarrier();
let v137 = u32(1);
let v138 = v21 < v137;
if v138 {
let v140 = v72 + v137;
let v144 = &(*v191)[v140];
let v145 = *v144;
let v150 = *v76;
let v151 = v150 + v145;
*v76 = v151;

}
let v156 = *v76;
let v158 = v21 == v3;
var<function> v192_store: bool;
let v192 = &v192_store;
if v158 {
*v192 = v32;

} else {
let v162 = false;
*v192 = v162;

}
let v163 = *v192;
if v163 {
let v167 = &(*v224)[v27];
*v167 = v156;

}
return;

}
